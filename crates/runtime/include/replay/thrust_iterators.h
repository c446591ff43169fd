// Thrust's pointers, iterators, policies and operators. Thrust: "Fancy Iterators", "Function Objects".
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "replay/memory.h"

namespace thrust {

template <class T> class device_reference;

/// A pointer to device memory; host code reads and writes behind it by copies.
template <class T>
class device_ptr {
 public:
  using iterator_category = ::std::random_access_iterator_tag;
  using value_type = typename ::std::remove_const<T>::type;
  using difference_type = ptrdiff_t;
  using pointer = device_ptr;
  using reference = device_reference<T>;

  device_ptr() = default;
  explicit device_ptr(T* at) : at_(at) {}
  template <class U, class = typename ::std::enable_if<::std::is_convertible<U*, T*>::value>::type>
  device_ptr(const device_ptr<U>& other) : at_(other.get()) {}
  T* get() const { return at_; }
  reference operator*() const { return reference(at_); }
  reference operator[](difference_type i) const { return reference(at_ + i); }
  device_ptr& operator++() { return ++at_, *this; }
  device_ptr operator++(int) { return device_ptr(at_++); }
  device_ptr& operator--() { return --at_, *this; }
  device_ptr& operator+=(difference_type n) { return at_ += n, *this; }
  device_ptr& operator-=(difference_type n) { return at_ -= n, *this; }
  device_ptr operator+(difference_type n) const { return device_ptr(at_ + n); }
  device_ptr operator-(difference_type n) const { return device_ptr(at_ - n); }
  difference_type operator-(const device_ptr& other) const { return at_ - other.at_; }
  bool operator==(const device_ptr& other) const { return at_ == other.at_; }
  bool operator!=(const device_ptr& other) const { return at_ != other.at_; }
  bool operator<(const device_ptr& other) const { return at_ < other.at_; }

 private:
  T* at_ = nullptr;
};

/// An element of device memory.
template <class T>
class device_reference {
  using value = typename ::std::remove_const<T>::type;

 public:
  explicit device_reference(T* at) : at_(at) {}
  device_reference(const device_reference&) = default;
  device_ptr<T> operator&() const { return device_ptr<T>(at_); }
  operator value() const {
    if (replay_rt::block.in_kernel) return *at_;
    value copy;
    cudaMemcpy(&copy, at_, sizeof(value), cudaMemcpyDeviceToHost);
    return copy;
  }
  const device_reference& operator=(const value& from) const {
    if (replay_rt::block.in_kernel) *const_cast<value*>(at_) = from;
    else cudaMemcpy(const_cast<value*>(at_), &from, sizeof(value), cudaMemcpyHostToDevice);
    return *this;
  }
  const device_reference& operator=(const device_reference& from) const { return *this = (value)from; }
  const device_reference& operator+=(const value& by) const { return *this = (value)*this + by; }

 private:
  T* at_;
};

template <class T> device_ptr<T> device_malloc(size_t count) {
  T* at = nullptr;
  cudaMalloc(&at, count * sizeof(T));
  return device_ptr<T>(at);
}
template <class T> void device_free(const device_ptr<T>& at) { cudaFree(const_cast<void*>((const void*)at.get())); }
template <class T> device_ptr<T> device_pointer_cast(T* at) { return device_ptr<T>(at); }
template <class T> T* raw_pointer_cast(T* at) { return at; }
template <class T> T* raw_pointer_cast(const device_ptr<T>& at) { return at.get(); }

// Execution policies: where plain pointers lead.
struct replay_device_policy {
  cudaStream_t stream = nullptr;
  replay_device_policy on(cudaStream_t on) const { return {on}; }
};
struct replay_host_policy {};
static const replay_device_policy device = {};
static const replay_host_policy host = {};
static const replay_host_policy seq = {};
namespace cuda {
static const replay_device_policy par = {};
static const replay_device_policy par_nosync = {};
}  // namespace cuda

template <class T = void> struct plus : ::std::plus<T> {};
template <class T = void> struct minus : ::std::minus<T> {};
template <class T = void> struct multiplies : ::std::multiplies<T> {};
template <class T = void> struct divides : ::std::divides<T> {};
template <class T = void> struct negate : ::std::negate<T> {};
template <class T = void> struct less : ::std::less<T> {};
template <class T = void> struct greater : ::std::greater<T> {};
template <class T = void> struct equal_to : ::std::equal_to<T> {};
template <class T = void> struct not_equal_to : ::std::not_equal_to<T> {};
template <class T = void> struct logical_and : ::std::logical_and<T> {};
template <class T = void> struct logical_or : ::std::logical_or<T> {};
template <class T = void>
struct maximum {
  T operator()(const T& a, const T& b) const { return a < b ? b : a; }
};
template <>
struct maximum<void> {
  template <class T> T operator()(const T& a, const T& b) const { return a < b ? b : a; }
};
template <class T = void>
struct minimum {
  T operator()(const T& a, const T& b) const { return b < a ? b : a; }
};
template <>
struct minimum<void> {
  template <class T> T operator()(const T& a, const T& b) const { return b < a ? b : a; }
};
template <class T = void>
struct identity {
  const T& operator()(const T& x) const { return x; }
};
template <class T>
struct square {
  T operator()(const T& x) const { return x * x; }
};
using ::std::make_pair;
using ::std::pair;

/// 0, 1, 2, ...
template <class T>
class counting_iterator {
 public:
  using iterator_category = ::std::random_access_iterator_tag;
  using value_type = T;
  using difference_type = ptrdiff_t;
  using pointer = const T*;
  using reference = T;
  counting_iterator() = default;
  explicit counting_iterator(T at) : at_(at) {}
  T operator*() const { return at_; }
  T operator[](difference_type i) const { return (T)(at_ + i); }
  counting_iterator& operator++() { return ++at_, *this; }
  counting_iterator& operator+=(difference_type n) { return at_ = (T)(at_ + n), *this; }
  counting_iterator operator+(difference_type n) const { return counting_iterator((T)(at_ + n)); }
  difference_type operator-(const counting_iterator& other) const {
    return (difference_type)at_ - (difference_type)other.at_;
  }
  bool operator==(const counting_iterator& other) const { return at_ == other.at_; }
  bool operator!=(const counting_iterator& other) const { return at_ != other.at_; }

 private:
  T at_ = T();
};
template <class T> counting_iterator<T> make_counting_iterator(T at) { return counting_iterator<T>(at); }

/// One value, everywhere.
template <class T>
class constant_iterator {
 public:
  using iterator_category = ::std::random_access_iterator_tag;
  using value_type = T;
  using difference_type = ptrdiff_t;
  using pointer = const T*;
  using reference = T;
  explicit constant_iterator(T value, difference_type at = 0) : value_(value), at_(at) {}
  T operator*() const { return value_; }
  T operator[](difference_type) const { return value_; }
  constant_iterator& operator++() { return ++at_, *this; }
  constant_iterator operator+(difference_type n) const { return constant_iterator(value_, at_ + n); }
  difference_type operator-(const constant_iterator& other) const { return at_ - other.at_; }
  bool operator!=(const constant_iterator& other) const { return at_ != other.at_; }
  bool operator==(const constant_iterator& other) const { return at_ == other.at_; }

 private:
  T value_;
  difference_type at_;
};
template <class T> constant_iterator<T> make_constant_iterator(T value) { return constant_iterator<T>(value); }

/// Forgets what is written.
class discard_iterator {
 public:
  struct sink {
    template <class T> const sink& operator=(const T&) const { return *this; }
  };
  using iterator_category = ::std::random_access_iterator_tag;
  using value_type = sink;
  using difference_type = ptrdiff_t;
  using pointer = const sink*;
  using reference = sink;
  explicit discard_iterator(difference_type at = 0) : at_(at) {}
  sink operator*() const { return {}; }
  sink operator[](difference_type) const { return {}; }
  discard_iterator& operator++() { return ++at_, *this; }
  discard_iterator operator+(difference_type n) const { return discard_iterator(at_ + n); }
  difference_type operator-(const discard_iterator& other) const { return at_ - other.at_; }
  bool operator==(const discard_iterator& other) const { return at_ == other.at_; }
  bool operator!=(const discard_iterator& other) const { return at_ != other.at_; }

 private:
  difference_type at_;
};
inline discard_iterator make_discard_iterator(ptrdiff_t at = 0) { return discard_iterator(at); }
using ::std::advance;
using ::std::distance;

/// The memory behind an iterator, the device's or the host's, and its replacement in kernels.
template <class I> struct replay_place {
  static constexpr bool on_device = false, anywhere = false;
  static I raw(const I& at) { return at; }
};
template <class T> struct replay_place<device_ptr<T>> {
  static constexpr bool on_device = true, anywhere = false;
  static T* raw(const device_ptr<T>& at) { return at.get(); }
};
template <class T> struct replay_place<counting_iterator<T>> {
  static constexpr bool on_device = false, anywhere = true;
  static counting_iterator<T> raw(const counting_iterator<T>& at) { return at; }
};
template <> struct replay_place<discard_iterator> {
  static constexpr bool on_device = false, anywhere = true;
  static discard_iterator raw(const discard_iterator& at) { return at; }
};
template <class T> struct replay_place<constant_iterator<T>> {
  static constexpr bool on_device = false, anywhere = true;
  static constant_iterator<T> raw(const constant_iterator<T>& at) { return at; }
};

/// The items behind `base` through `function`.
template <class F, class I>
class transform_iterator {
 public:
  using iterator_category = ::std::random_access_iterator_tag;
  using raw_type = decltype(replay_place<I>::raw(::std::declval<I>()));
  using value_type = typename ::std::decay<decltype(::std::declval<const F&>()(*::std::declval<raw_type>()))>::type;
  using difference_type = ptrdiff_t;
  using pointer = const value_type*;
  using reference = value_type;
  transform_iterator(I base, F function) : base_(base), function_(function) {}
  value_type operator*() const { return function_(*base_); }
  value_type operator[](difference_type i) const { return function_(base_[i]); }
  transform_iterator& operator++() { return ++base_, *this; }
  transform_iterator operator+(difference_type n) const { return {base_ + n, function_}; }
  difference_type operator-(const transform_iterator& other) const { return base_ - other.base_; }
  bool operator==(const transform_iterator& other) const { return base_ == other.base_; }
  bool operator!=(const transform_iterator& other) const { return base_ != other.base_; }
  I base() const { return base_; }
  F function() const { return function_; }

 private:
  I base_;
  F function_;
};
template <class I, class F>
transform_iterator<F, I> make_transform_iterator(I base, F function) {
  return {base, function};
}
template <class F, class I> struct replay_place<transform_iterator<F, I>> {
  static constexpr bool on_device = replay_place<I>::on_device, anywhere = replay_place<I>::anywhere;
  using inner = decltype(replay_place<I>::raw(::std::declval<I>()));
  static transform_iterator<F, inner> raw(const transform_iterator<F, I>& at) {
    return {replay_place<I>::raw(at.base()), at.function()};
  }
};

}  // namespace thrust
