// Thrust's algorithms that choose and move items, and its iterators over several ranges.
#include <thrust/adjacent_difference.h>
#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/find.h>
#include <thrust/gather.h>
#include <thrust/iterator/permutation_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/logical.h>
#include <thrust/remove.h>
#include <thrust/replace.h>
#include <thrust/scatter.h>
#include <thrust/tabulate.h>
#include <thrust/tuple.h>
#include <thrust/unique.h>

struct is_positive {
  __host__ __device__ bool operator()(float x) const { return x > 0.f; }
};
struct of_seven {
  __host__ __device__ int operator()(int i) const { return i / 7; }
};
struct add_twice {
  template <class T>
  __host__ __device__ void operator()(T pair) const { thrust::get<1>(pair) += 2.f * thrust::get<0>(pair); }
};
struct product {
  __host__ __device__ float operator()(const thrust::tuple<float, float>& pair) const {
    return thrust::get<0>(pair) * thrust::get<1>(pair);
  }
};

void run_selection(const float* x, float* out) {
  auto to = [=](int at) { return thrust::device_pointer_cast(out + at); };
  thrust::device_ptr<const float> from(x);
  thrust::device_vector<float> d(from, from + 100), e(100, 1.f), sums(100);
  thrust::device_vector<int> keys(100), runs(100), back(100);
  float told[12] = {};
  told[0] = (float)(thrust::copy_if(d.begin(), d.end(), to(0), is_positive()) - to(0));
  thrust::tabulate(keys.begin(), keys.end(), of_seven());
  auto ends = thrust::reduce_by_key(keys.begin(), keys.end(), d.begin(), runs.begin(), sums.begin());
  told[1] = (float)(ends.first - runs.begin());
  thrust::copy(sums.begin(), ends.second, to(100));
  told[2] = (float)(thrust::unique(keys.begin(), keys.end()) - keys.begin());
  told[3] = (float)(thrust::find(d.begin(), d.end(), d[40]) - d.begin());
  told[4] = (float)thrust::count(thrust::device, x, x + 100, 2.f);
  told[5] = thrust::any_of(d.begin(), d.end(), is_positive()) + 2 * thrust::all_of(d.begin(), d.end(), is_positive());
  auto both = thrust::make_zip_iterator(thrust::make_tuple(d.begin(), e.begin()));
  thrust::for_each(both, both + 100, add_twice());
  thrust::copy(e.begin(), e.end(), to(130));
  told[6] = thrust::transform_reduce(both, both + 100, product(), 0.f, thrust::plus<float>());
  thrust::tabulate(back.begin(), back.end(), [] __host__ __device__(int i) { return 99 - i; });
  thrust::gather(back.begin(), back.end(), d.begin(), to(230));
  thrust::scatter(d.begin(), d.begin() + 10, back.begin(), to(450));
  thrust::adjacent_difference(d.begin(), d.end(), to(330));
  auto turned = thrust::make_permutation_iterator(d.begin(), back.begin());
  told[7] = thrust::reduce(turned, turned + 10);
  auto extremes = thrust::minmax_element(d.begin(), d.end());
  told[8] = *extremes.first, told[9] = *extremes.second;
  d.erase(thrust::remove_if(d.begin(), d.end(), is_positive()), d.end());
  told[10] = (float)d.size();
  thrust::replace_if(e.begin(), e.end(), is_positive(), -1.f);
  told[11] = thrust::reduce(e.begin(), e.begin() + 1);
  cudaMemcpy(out + 430, told, sizeof told, cudaMemcpyHostToDevice);
}
