// CUB's algorithms that choose, encode and count items, as code for sparse data calls them.
#include <cub/cub.cuh>

#include <stdio.h>

struct IsPositive {
  __host__ __device__ bool operator()(float x) const { return x > 0; }
};
struct Doubled {
  __host__ __device__ float operator()(float x) const { return 2 * x; }
};

// Sizes its temporary memory by a first call, as CUB wants it.
template <class Call>
void with_memory(Call call) {
  void* temp = nullptr;
  size_t bytes = 0;
  call(temp, bytes);
  cudaMalloc(&temp, bytes);
  if (call(temp, bytes) != cudaSuccess) printf("an algorithm failed\n");
  cudaFree(temp);
}

__global__ void to_floats(float* y, const int* from, int n) {
  if (threadIdx.x < n) y[threadIdx.x] = from[threadIdx.x];
}

__global__ void to_keys(int* keys, const float* from) { keys[threadIdx.x] = (int)from[threadIdx.x]; }

// `numbers` holds runs of equal numbers, `counts` has place for 8 numbers of items.
void run(float* y, const float* x, const float* numbers, int n) {
  int *keys, *counts, *flags, *unique, *lengths;
  cudaMalloc(&keys, n * sizeof(int));
  to_keys<<<1, n>>>(keys, numbers);
  cudaMalloc(&counts, 8 * sizeof(int));
  cudaMalloc(&flags, n * sizeof(int));
  cudaMalloc(&unique, n * sizeof(int));
  cudaMalloc(&lengths, n * sizeof(int));
  cudaMemset(y, 0, (8 + 8 * n) * sizeof(float));
  auto row = [&](int number) { return y + 8 + number * n; };

  with_memory([&](void* temp, size_t& bytes) {
    return cub::DeviceSelect::If(temp, bytes, x, row(0), counts, n, IsPositive());
  });
  with_memory([&](void* temp, size_t& bytes) {
    return cub::DevicePartition::If(temp, bytes, x, row(1), counts + 1, n, IsPositive());
  });
  with_memory([&](void* temp, size_t& bytes) {
    return cub::DeviceSelect::Flagged(temp, bytes, x, keys, row(2), counts + 2, n);
  });
  with_memory([&](void* temp, size_t& bytes) {
    return cub::DeviceSelect::Unique(temp, bytes, keys, unique, counts + 3, n);
  });
  with_memory([&](void* temp, size_t& bytes) {
    return cub::DeviceRunLengthEncode::Encode(temp, bytes, keys, unique, lengths, counts + 4, n);
  });
  to_floats<<<1, 64>>>(row(3), unique, n / 4);
  to_floats<<<1, 64>>>(row(3) + n / 4, lengths, n / 4);
  with_memory([&](void* temp, size_t& bytes) {
    return cub::DeviceRunLengthEncode::NonTrivialRuns(temp, bytes, keys, unique, lengths, counts + 5, n);
  });
  cub::TransformInputIterator<float, Doubled, const float*> doubled(x, Doubled());
  with_memory([&](void* temp, size_t& bytes) {
    return cub::DeviceReduce::ReduceByKey(temp, bytes, keys, flags, doubled, row(4), counts + 6, cub::Sum(), n);
  });
  with_memory([&](void* temp, size_t& bytes) {
    return cub::DeviceHistogram::HistogramEven(temp, bytes, x, flags, 9, -2.0f, 2.0f, n);
  });
  to_floats<<<1, 64>>>(row(5), flags, 8);
  // Segments of 8 items.
  int begins[16];
  for (int i = 0; i <= n / 8; i++) begins[i] = 8 * i;
  int* offsets;
  cudaMalloc(&offsets, sizeof(begins));
  cudaMemcpy(offsets, begins, sizeof(begins), cudaMemcpyHostToDevice);
  with_memory([&](void* temp, size_t& bytes) {
    return cub::DeviceSegmentedRadixSort::SortPairsDescending(temp, bytes, x, row(6), x, row(7), n, n / 8,
                                                              offsets, offsets + 1);
  });
  cub::CountingInputIterator<int> counting(3);
  with_memory([&](void* temp, size_t& bytes) { return cub::DeviceReduce::Sum(temp, bytes, counting, counts + 7, n); });
  to_floats<<<1, 8>>>(y, counts, 8);
}
