// The names of the pipeline primitives. CUDA C++ Programming Guide: "Pipeline Primitives Interface".
#pragma once

#include "cuda_pipeline.h"
