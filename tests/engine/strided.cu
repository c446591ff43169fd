// Strided loops that run for many threads at once, and halving reductions: whatever threads bring,
// they must do what each does alone. `x` has 4096 elements of every kind of float, `out` as many.
#include <cuda_runtime.h>

#include <math.h>

// A soft maximum and its gradient, as kernels have it, over rows of any size.
__global__ void softmax_kernel(const float* __restrict__ x, float* __restrict__ out, int n,
                               float scale) {
  extern __shared__ float shared[];
  int tid = threadIdx.x;
  const float* row = x + (size_t)blockIdx.x * n;
  float* out_row = out + (size_t)blockIdx.x * n;
  if (blockIdx.x % 5 == 3) {
    for (int i = tid; i < n; i += blockDim.x) {
      out_row[i] = 0.0f;
    }
    return;
  }
  float most = -3.0e38f;
  for (int i = tid; i < n; i += blockDim.x) {
    most = fmaxf(most, row[i]);
  }
  shared[tid] = most;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) {
      shared[tid] = fmaxf(shared[tid], shared[tid + s]);
    }
    __syncthreads();
  }
  most = shared[0];
  __syncthreads();
  float sum = 0.0f, lost = 0.0f;
  for (int i = tid; i < n; i += blockDim.x) {
    float y = expf(row[i] - most) - lost;
    float t = sum + y;
    lost = (t - sum) - y;
    sum = t;
  }
  shared[tid] = sum;
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
    if (threadIdx.x < s) {
      shared[threadIdx.x] += shared[threadIdx.x + s];
    }
    __syncthreads();
  }
  sum = shared[0];
  int target = blockIdx.x % n;
  for (int i = tid; i < n; i += blockDim.x) {
    float p = expf(row[i] - most) / sum;
    out_row[i] = (p - (i == target ? 1.0f : 0.0f)) * scale;
  }
}
static void softmax(const float* x, float* out, int n, int block) {
  softmax_kernel<<<4096 / n, block, block * sizeof(float)>>>(x, out, n, 0.25f);
}
static void case_softmax_of_one(const float* x, float* out) { softmax(x, out, 1, 64); }
static void case_softmax_of_15(const float* x, float* out) { softmax(x, out, 15, 64); }
static void case_softmax_of_33(const float* x, float* out) { softmax(x, out, 33, 32); }
static void case_softmax_of_100(const float* x, float* out) { softmax(x, out, 100, 64); }
static void case_softmax_of_1000(const float* x, float* out) { softmax(x, out, 1000, 256); }
static void case_softmax_of_4000(const float* x, float* out) { softmax(x, out, 4000, 96); }
static void case_softmax_of_odd_blocks(const float* x, float* out) { softmax(x, out, 333, 77); }
static void case_softmax_of_narrow_blocks(const float* x, float* out) { softmax(x, out, 50, 9); }

// Every float function and operator, on floats of every kind.
__global__ void functions_kernel(const float* __restrict__ x, float* __restrict__ out,
                                 float* __restrict__ more, float* rest, int n, float one) {
  float least = 1.0f, total = 0.0f;
  int count = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const float a = x[i];
    int near = i - 7 * (i < 100 ? 2 : 3);
    least = fminf(least, fabsf(a));
    total -= -a * (float)near + 3;
    count += i >= 17 && !(a > 0.0f) || a != a ? 1 : 2;
    total *= 0.5f;
    total /= one;
    out[i] = expf(a) - 2.5e-3f / (a <= one ? a : -one);
    more[i] = least + total + near;
  }
  __syncthreads();
  rest[threadIdx.x] = least + count;
}
static void case_functions(const float* x, float* out) {
  functions_kernel<<<1, 64>>>(x, out, out + 2010, out + 4020, 2000, 1.0f);
}

// What is guessed of the threads that come later is wrong in many ways.
__global__ void wrong_guesses_kernel(const float* __restrict__ x, float* __restrict__ out, int n) {
  int t = threadIdx.x;
  float scale = t % 3 == 0 ? 2.0f : 1.0f;
  int end = t % 5 == 4 ? n - 1 : n;
  int begin = t % 7 == 6 ? t + 64 : t;
  float sum = t;
  __syncthreads();
  if (t % 11 != 10) {
    for (int i = begin; i < end; i += blockDim.x) {
      sum += x[i] * scale;
    }
  }
  for (int round = 0; round < 3; round++) {
    for (int i = t; i < n; i += blockDim.x) {
      sum = sum * 0.5f + x[i] + round;
    }
  }
  __syncthreads();
  out[blockIdx.x * blockDim.x + t] = sum;
}
static void case_wrong_guesses(const float* x, float* out) {
  wrong_guesses_kernel<<<8, 128>>>(x, out, 1500);
}

// Threads whose index does not follow the order of threads.
__global__ void planes_kernel(const float* __restrict__ x, float* __restrict__ out, int n) {
  float sum = 0.0f;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    sum += x[i];
  }
  out[(blockIdx.x * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x] = sum + threadIdx.y;
}
static void case_planes(const float* x, float* out) {
  planes_kernel<<<2, dim3(20, 6)>>>(x, out, 500);
}

// Only some threads come, and memory ends where the others would begin.
__global__ void few_come_kernel(const float* __restrict__ x, float* __restrict__ out, float* rest,
                                int n) {
  float sum = 0.0f;
  __syncthreads();
  if (threadIdx.x < 3) {
    for (int i = threadIdx.x; i < n; i += 64) {
      sum += x[i];
      out[i] = x[i];
    }
  }
  __syncthreads();
  if (threadIdx.x < 3) rest[threadIdx.x] = sum;
}
static void case_few_come(const float* x, float* out) {
  few_come_kernel<<<1, 64>>>(x + 4096 - 67, out, out + 3000, 100);
}

// Steps that overlap, run backwards, or are no step at all.
__global__ void steps_kernel(const float* __restrict__ x, float* __restrict__ out, float* rest, int n,
                             int step) {
  float sum = 0.0f;
  int t = threadIdx.x;
  __syncthreads();
  for (int i = t; i < n; i += step) {
    sum += x[i];
    out[i] = sum;
  }
  __syncthreads();
  rest[t] = sum;
}
static void case_step_of_one(const float* x, float* out) { steps_kernel<<<1, 64>>>(x, out, out + 400, 300, 1); }
static void case_step_of_17(const float* x, float* out) { steps_kernel<<<1, 64>>>(x, out, out + 400, 300, 17); }
static void case_step_beyond(const float* x, float* out) {
  steps_kernel<<<1, 64>>>(x, out, out + 400, 300, 2147483000);
}

// A barrier is missing: what a thread sees depends on those before it.
__global__ void race_kernel(const float* __restrict__ x, float* __restrict__ out, int n) {
  __shared__ float shared[64];
  int t = threadIdx.x;
  shared[t] = x[t];
  __syncthreads();
  float first = shared[0];
  float sum = 0.0f;
  for (int i = t; i < n; i += blockDim.x) {
    sum += x[i] * first;
  }
  shared[t] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (t < s) shared[t] = shared[t + s] + shared[s - t];
    __syncthreads();
  }
  out[blockIdx.x * 64 + t] = shared[t] + first;
}
static void case_race(const float* x, float* out) { race_kernel<<<3, 64>>>(x, out, 640); }

// Others look at what a loop stores, through the same pointer or another one.
__global__ void seen_kernel(const float* __restrict__ x, float* __restrict__ out, float* alias,
                            int n) {
  int t = threadIdx.x;
  float seen = 0.0f;
  __syncthreads();
  for (int i = t; i < n; i += blockDim.x) {
    out[i] = x[i];
  }
  seen += out[(t + 1) % n];
  for (int i = t; i < n; i += blockDim.x) {
    alias[i] = x[i] + 1.0f;
  }
  __syncthreads();
  out[2048 + t] = seen;
}
static void case_seen(const float* x, float* out) {
  seen_kernel<<<1, 64>>>(x, out, out + 1024, 1000);
}

// Two loops of one kernel store one after the other.
__global__ void two_stores_kernel(const float* __restrict__ x, float* __restrict__ a,
                                  float* __restrict__ b, int n) {
  int t = threadIdx.x;
  __syncthreads();
  for (int i = t; i < n; i += blockDim.x) {
    a[i] = x[i] * 2.0f;
    b[i] = x[i] - 1;
  }
  for (int i = t; i < n; i += blockDim.x) a[i] = fabsf(x[i]);
}
static void case_two_stores(const float* x, float* out) {
  two_stores_kernel<<<1, 48>>>(x, out, out + 2048, 1900);
}

// The body changes variables of its own, and one of the file has the name of one of another scope.
__device__ double hidden = 3.0;
__global__ void own_variables_kernel(const float* __restrict__ x, float* __restrict__ out, int n) {
  float sum = 0.0f;
  __syncthreads();
  if (n < 0) {
    float hidden = 1.0f;
    out[0] = hidden;
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float y = x[i];
    y *= 2.0f;
    y = y + 1.0f;
    sum += y;
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    sum += x[i] * hidden;
  }
  out[threadIdx.x] = sum;
}
static void case_own_variables(const float* x, float* out) {
  own_variables_kernel<<<1, 64>>>(x, out, 1000);
}

// A halving loop whose levels are not those of the index, and one with other arithmetic.
__global__ void halvings_kernel(const float* __restrict__ x, float* __restrict__ out, int from) {
  __shared__ float shared[256];
  int t = threadIdx.x, reversed = blockDim.x - 1 - t;
  shared[t] = x[t];
  __syncthreads();
  for (int s = from; s > 0; s >>= 1) {
    if (reversed < s) {
      shared[reversed] = shared[reversed] * 0.5f - shared[reversed + s];
    }
    __syncthreads();
  }
  for (int s = from + t % 2; s > 0; s >>= 1) {
    if (t < s) shared[t] += shared[t + s];
    __syncthreads();
  }
  for (int s = from; s > 0; s >>= 1) {
    if (t < s) {
      shared[t] += shared[t + s];
      out[512 + t] = shared[t];
    }
    __syncthreads();
  }
  out[t] = shared[t];
}
static void case_halvings(const float* x, float* out) { halvings_kernel<<<1, 100>>>(x, out, 50); }
static void case_halvings_beyond(const float* x, float* out) {
  halvings_kernel<<<1, 100>>>(x, out, 120);
}
