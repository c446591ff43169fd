// Thrust's algorithms over sorted and divided ranges, and its random numbers.
#include <thrust/binary_search.h>
#include <thrust/device_malloc.h>
#include <thrust/device_free.h>
#include <thrust/device_vector.h>
#include <thrust/equal.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/discard_iterator.h>
#include <thrust/iterator/reverse_iterator.h>
#include <thrust/merge.h>
#include <thrust/mismatch.h>
#include <thrust/partition.h>
#include <thrust/random.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/transform_scan.h>

struct is_positive {
  __host__ __device__ bool operator()(float x) const { return x > 0.f; }
};
struct doubled {
  __host__ __device__ float operator()(float x) const { return 2.f * x; }
};
struct of_seven {
  __host__ __device__ int operator()(int i) const { return i / 7; }
};
// Each element draws from the place of its own in one sequence, as initialisers do.
struct drawn {
  __host__ __device__ float operator()(unsigned i) const {
    thrust::default_random_engine engine(7);
    thrust::uniform_real_distribution<float> between(-1.f, 3.f);
    engine.discard(i);
    return between(engine);
  }
};

void run_order(const float* x, float* out) {
  auto to = [=](int at) { return thrust::device_pointer_cast(out + at); };
  thrust::device_ptr<const float> from(x);
  thrust::device_vector<float> a(from, from + 100), b(from + 100, from + 160), both(160);
  thrust::copy(a.begin(), a.end(), to(0));
  auto point = thrust::partition(to(0), to(100), is_positive());
  thrust::copy(a.begin(), a.end(), to(100));
  thrust::stable_partition(thrust::device, out + 100, out + 200, is_positive());
  thrust::sort(a.begin(), a.end());
  thrust::sort(b.begin(), b.end());
  thrust::merge(a.begin(), a.end(), b.begin(), b.end(), both.begin());
  thrust::copy(both.begin(), both.end(), to(200));
  thrust::lower_bound(a.begin(), a.end(), b.begin(), b.end(), to(400));
  thrust::upper_bound(a.begin(), a.end(), from + 100, from + 160, to(500));
  auto common = thrust::set_intersection(a.begin(), a.end(), b.begin(), b.end(), to(600));
  auto united = thrust::set_union(a.begin(), a.end(), b.begin(), b.end(), to(700));
  auto alone = thrust::set_difference(b.begin(), b.end(), a.begin(), a.end(), to(900));
  auto keys = thrust::make_transform_iterator(thrust::make_counting_iterator(0), of_seven());
  thrust::inclusive_scan_by_key(thrust::device, keys, keys + 100, x, out + 1000);
  thrust::exclusive_scan_by_key(thrust::device, keys, keys + 100, x, out + 1100, 1.f);
  thrust::transform_inclusive_scan(from, from + 20, to(1200), doubled(), thrust::plus<float>());
  thrust::transform_if(thrust::device, x, x + 20, out + 1220, doubled(), is_positive());
  auto backwards = thrust::make_reverse_iterator(from + 20);
  thrust::copy(backwards, backwards + 20, to(1240));
  thrust::counting_iterator<unsigned> places(0);
  thrust::transform(places, places + 50, to(1300), drawn());
  auto kept = thrust::partition_copy(from, from + 100, to(1400), thrust::make_discard_iterator(), is_positive());

  thrust::minstd_rand engine;
  engine.discard(9999);
  const double last = engine();
  thrust::uniform_int_distribution<int> dice(1, 6);
  thrust::normal_distribution<float> normal(2.f, 0.5f);
  auto numbers = thrust::device_malloc<float>(2);
  thrust::fill(numbers, numbers + 2, 5.f);
  const float told[16] = {
      (float)(point - to(0)),
      (float)(common - to(600)),
      (float)(united - to(700)),
      (float)(alone - to(900)),
      (float)(kept.first - to(1400)),
      (float)(last / 1024),
      (float)dice(engine),
      normcdff((normal(engine) - 2.f) * 2.f),
      (float)thrust::binary_search(a.begin(), a.end(), 0.25f),
      (float)thrust::binary_search(a.begin(), a.end(), 0.3f),
      (float)thrust::is_sorted(a.begin(), a.end()),
      (float)thrust::is_sorted(thrust::device, x, x + 100),
      (float)(thrust::mismatch(a.begin(), a.end(), both.begin()).first - a.begin()),
      (float)thrust::equal(a.begin(), a.end(), a.begin()),
      numbers[1],
      (float)(thrust::lower_bound(a.begin(), a.end(), 2.f, thrust::less<float>()) - a.begin()),
  };
  thrust::device_free(numbers);
  cudaMemcpy(out + 1600, told, sizeof told, cudaMemcpyHostToDevice);
}
