// A small PyTorch for the host code of extensions: tensors, their options and checks, sums, products of matrices and arithmetic,
// selection and order of elements, dispatch by type, streams and guards. Other operators of PyTorch (convolutions, softmax) are not here.
// docs/cuda-support.md, "PyTorch extensions", lists its contents.
#pragma once

#define REPLAY_TORCH 1
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "replay/torch_types.h"
#include "replay/torch_tensor.h"
#include "replay/torch_operators.h"
#include "replay/torch_math.h"
#include "replay/torch_indexing.h"
#include "replay/torch_dispatch.h"
#include "replay/torch_cuda.h"
#include "replay/torch_results.h"
