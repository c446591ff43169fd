// Thrust's iterators over several ranges, and over one in another order. Thrust: "zip_iterator",
// "permutation_iterator", "reverse_iterator". An item of a zip is a tuple of references.
#pragma once

#include <tuple>

#include "replay/thrust_iterators.h"

namespace thrust {

using ::std::get;
using ::std::make_tuple;
using ::std::tie;
using ::std::tuple;
using ::std::tuple_element;
using ::std::tuple_size;

template <class I> auto replay_raw(const I& at) { return replay_place<I>::raw(at); }
template <class I> using replay_value = typename ::std::iterator_traits<I>::value_type;

template <class Tuple> class zip_iterator;
template <class... I>
class zip_iterator<tuple<I...>> {
 public:
  using iterator_category = ::std::random_access_iterator_tag;
  using value_type = tuple<replay_value<I>...>;
  using difference_type = ptrdiff_t;
  using pointer = const value_type*;
  using reference = tuple<decltype(::std::declval<const I&>()[0])...>;

  explicit zip_iterator(tuple<I...> at) : at_(at) {}
  reference operator*() const { return (*this)[0]; }
  reference operator[](difference_type i) const {
    return ::std::apply([i](const I&... each) { return reference(each[i]...); }, at_);
  }
  zip_iterator operator+(difference_type n) const {
    return zip_iterator(::std::apply([n](const I&... each) { return tuple<I...>((each + n)...); }, at_));
  }
  zip_iterator& operator+=(difference_type n) { return *this = *this + n; }
  zip_iterator& operator++() { return *this += 1; }
  difference_type operator-(const zip_iterator& other) const {
    return ::std::get<0>(at_) - ::std::get<0>(other.at_);
  }
  bool operator==(const zip_iterator& other) const { return *this - other == 0; }
  bool operator!=(const zip_iterator& other) const { return *this - other != 0; }
  const tuple<I...>& get_iterator_tuple() const { return at_; }

 private:
  tuple<I...> at_;
};
template <class... I> zip_iterator<tuple<I...>> make_zip_iterator(const tuple<I...>& at) {
  return zip_iterator<tuple<I...>>(at);
}
template <class I, class... More> zip_iterator<tuple<I, More...>> make_zip_iterator(I first, More... more) {
  return zip_iterator<tuple<I, More...>>(tuple<I, More...>(first, more...));
}
template <class... I> struct replay_place<zip_iterator<tuple<I...>>> {
  static constexpr bool on_device = (replay_place<I>::on_device || ...), anywhere = false;
  static auto raw(const zip_iterator<tuple<I...>>& at) {
    return make_zip_iterator(::std::apply(
        [](const I&... each) { return ::std::make_tuple(replay_raw(each)...); }, at.get_iterator_tuple()));
  }
};

/// The items of `items` in the order of `order`.
template <class E, class I>
class permutation_iterator {
 public:
  using iterator_category = ::std::random_access_iterator_tag;
  using value_type = replay_value<E>;
  using difference_type = ptrdiff_t;
  using pointer = const value_type*;
  using reference = decltype(::std::declval<const E&>()[0]);

  permutation_iterator(E items, I order) : items_(items), order_(order) {}
  reference operator*() const { return (*this)[0]; }
  reference operator[](difference_type i) const { return items_[(ptrdiff_t)order_[i]]; }
  permutation_iterator operator+(difference_type n) const { return {items_, order_ + n}; }
  permutation_iterator& operator++() { return order_ = order_ + 1, *this; }
  difference_type operator-(const permutation_iterator& other) const { return order_ - other.order_; }
  bool operator==(const permutation_iterator& other) const { return order_ == other.order_; }
  bool operator!=(const permutation_iterator& other) const { return order_ != other.order_; }
  E items() const { return items_; }
  I order() const { return order_; }

 private:
  E items_;
  I order_;
};
template <class E, class I> permutation_iterator<E, I> make_permutation_iterator(E items, I order) {
  return {items, order};
}
template <class E, class I> struct replay_place<permutation_iterator<E, I>> {
  static constexpr bool on_device = replay_place<E>::on_device || replay_place<I>::on_device;
  static constexpr bool anywhere = false;
  static auto raw(const permutation_iterator<E, I>& at) {
    return make_permutation_iterator(replay_raw(at.items()), replay_raw(at.order()));
  }
};

/// The items before `end`, the last one first.
template <class I>
class reverse_iterator {
 public:
  using iterator_category = ::std::random_access_iterator_tag;
  using value_type = replay_value<I>;
  using difference_type = ptrdiff_t;
  using pointer = const value_type*;
  using reference = decltype(::std::declval<const I&>()[0]);

  explicit reverse_iterator(I end) : end_(end) {}
  reference operator*() const { return (*this)[0]; }
  reference operator[](difference_type i) const { return end_[-1 - i]; }
  reverse_iterator operator+(difference_type n) const { return reverse_iterator(end_ + -n); }
  reverse_iterator& operator++() { return *this = *this + 1; }
  difference_type operator-(const reverse_iterator& other) const { return other.end_ - end_; }
  bool operator==(const reverse_iterator& other) const { return end_ == other.end_; }
  bool operator!=(const reverse_iterator& other) const { return end_ != other.end_; }
  I base() const { return end_; }

 private:
  I end_;
};
template <class I> reverse_iterator<I> make_reverse_iterator(I end) { return reverse_iterator<I>(end); }
template <class I> struct replay_place<reverse_iterator<I>> {
  static constexpr bool on_device = replay_place<I>::on_device, anywhere = replay_place<I>::anywhere;
  static auto raw(const reverse_iterator<I>& at) { return make_reverse_iterator(replay_raw(at.base())); }
};

}  // namespace thrust
