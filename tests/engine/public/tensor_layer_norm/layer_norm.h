#pragma once
#include <torch/types.h>

#include <tuple>
#include <vector>

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> layer_norm_forward(const torch::Tensor& x,
                                                                           const torch::Tensor& weight,
                                                                           const torch::Tensor& bias, double eps);
std::vector<torch::Tensor> layer_norm_backward(torch::Tensor dy, torch::Tensor x, torch::Tensor mean,
                                               torch::Tensor rstd, torch::Tensor weight);
