// Thrust on device vectors. Thrust: "Containers".
#pragma once

#include <vector>

#include "replay/thrust_order.h"
#include "replay/thrust_random.h"

namespace thrust {

template <class T, class A = void>
using host_vector = ::std::vector<T>;

/// A vector in device memory; elements without a value are zero.
template <class T, class A = void>
class device_vector {
 public:
  using value_type = T;
  using iterator = device_ptr<T>;
  using const_iterator = device_ptr<const T>;
  using reference = device_reference<T>;
  using size_type = size_t;

  device_vector() = default;
  explicit device_vector(size_t count, const T& value = T()) { resize(count, value); }
  device_vector(const device_vector& other) { assign(other.begin(), other.end()); }
  device_vector(device_vector&& other) noexcept { swap(other); }
  device_vector(const ::std::vector<T>& from) { assign(from.begin(), from.end()); }
  template <class I, class = typename ::std::iterator_traits<I>::iterator_category>
  device_vector(I first, I last) {
    assign(first, last);
  }
  ~device_vector() { cudaFree(data_); }
  device_vector& operator=(const device_vector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  device_vector& operator=(device_vector&& other) noexcept { return swap(other), *this; }
  device_vector& operator=(const ::std::vector<T>& from) {
    return assign(from.begin(), from.end()), *this;
  }
  operator ::std::vector<T>() const {
    ::std::vector<T> copy(size_);
    thrust::copy(begin(), end(), copy.begin());
    return copy;
  }

  template <class I>
  void assign(I first, I last) {
    reserve_anew((size_t)(last - first));
    if constexpr (replay_place<I>::on_device || replay_place<I>::anywhere) thrust::copy(first, last, begin());
    else if (size_ > 0) {
      ::std::vector<T> values(first, last);
      cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice);
    }
  }
  void resize(size_t count, const T& value = T()) {
    T* old = data_;
    const size_t kept = count < size_ ? count : size_;
    data_ = nullptr;
    if (count > 0) cudaMalloc(&data_, count * sizeof(T));
    if (kept > 0) cudaMemcpy(data_, old, kept * sizeof(T), cudaMemcpyDeviceToDevice);
    cudaFree(old);
    size_ = count;
    if (kept < count) thrust::fill(begin() + kept, end(), value);
  }
  iterator erase(iterator first, iterator last) {
    const ptrdiff_t at = first - begin(), gone = last - first;
    thrust::copy(last, end(), first);
    resize(size_ - (size_t)gone);
    return begin() + at;
  }
  void push_back(const T& value) { resize(size_ + 1, value); }
  void clear() { resize(0); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  iterator begin() { return iterator(data_); }
  iterator end() { return iterator(data_ + size_); }
  const_iterator begin() const { return const_iterator(data_); }
  const_iterator end() const { return const_iterator(data_ + size_); }
  const_iterator cbegin() const { return begin(); }
  const_iterator cend() const { return end(); }
  device_ptr<T> data() { return device_ptr<T>(data_); }
  device_ptr<const T> data() const { return device_ptr<const T>(data_); }
  reference operator[](size_t i) { return reference(data_ + i); }
  T operator[](size_t i) const { return device_reference<const T>(data_ + i); }
  reference front() { return reference(data_); }
  reference back() { return reference(data_ + size_ - 1); }
  void swap(device_vector& other) {
    ::std::swap(data_, other.data_);
    ::std::swap(size_, other.size_);
  }

 private:
  void reserve_anew(size_t count) {
    if (count != size_) {
      cudaFree(data_);
      data_ = nullptr;
      if (count > 0) cudaMalloc(&data_, count * sizeof(T));
      size_ = count;
    }
  }
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace thrust
