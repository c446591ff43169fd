// Thrust on device vectors.
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/extrema.h>
#include <thrust/host_vector.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>

struct square {
  __host__ __device__ float operator()(float x) const { return x * x; }
};

void run_vectors(const float* x, float* out) {
  thrust::device_ptr<const float> from(x);
  thrust::device_vector<float> d(from, from + 5000);
  thrust::device_vector<int> order(5000);
  thrust::sequence(order.begin(), order.end());
  float results[5];
  results[0] = thrust::reduce(d.begin(), d.end(), 0.0f, thrust::plus<float>());
  results[1] = thrust::transform_reduce(d.begin(), d.end(), square(), 0.0f, thrust::plus<float>());
  results[2] = (float)(thrust::max_element(d.begin(), d.end()) - d.begin());
  results[3] = d[17];
  d[17] = 9.f;
  results[4] = thrust::reduce(thrust::device, x, x + 100, 1.f, thrust::maximum<float>());
  cudaMemcpy(out, results, sizeof(results), cudaMemcpyHostToDevice);
  thrust::stable_sort_by_key(d.begin(), d.end(), order.begin());
  thrust::transform(order.begin(), order.begin() + 20, thrust::device_pointer_cast(out + 8),
                    [] __host__ __device__(int i) { return (float)i; });
  thrust::inclusive_scan(thrust::device, x, x + 20, out + 28);
  thrust::host_vector<float> h = d;
  h[0] = h[4999];
  thrust::copy(h.begin(), h.begin() + 1, thrust::device_pointer_cast(out + 48));
  thrust::for_each(thrust::device, thrust::counting_iterator<int>(0), thrust::counting_iterator<int>(4),
                   [=] __device__(int i) { out[49 + i] = (float)(i * i); });
}
