// Iterators over items that are computed. CUB: "Iterators".
#pragma once

#include <stddef.h>

#include <iterator>

#include "replay/cub_operators.h"

namespace cub {

/// What iterators with an item for each place have in common: `Own` is the iterator, with `at(place)`.
template <class Own, class T>
struct replay_iterator {
  using value_type = T;
  using reference = T;
  using pointer = T*;
  using difference_type = ptrdiff_t;
  using iterator_category = ::std::random_access_iterator_tag;

  ptrdiff_t place = 0;

  T operator*() const { return own().at(place); }
  T operator[](ptrdiff_t i) const { return own().at(place + i); }
  Own operator+(ptrdiff_t i) const { return moved(i); }
  Own operator-(ptrdiff_t i) const { return moved(-i); }
  ptrdiff_t operator-(const Own& other) const { return place - other.place; }
  Own& operator+=(ptrdiff_t i) { return own() = moved(i); }
  Own& operator++() { return own() = moved(1); }
  Own operator++(int) {
    const Own before = own();
    own() = moved(1);
    return before;
  }
  bool operator==(const Own& other) const { return place == other.place; }
  bool operator!=(const Own& other) const { return place != other.place; }

 private:
  const Own& own() const { return static_cast<const Own&>(*this); }
  Own& own() { return static_cast<Own&>(*this); }
  Own moved(ptrdiff_t i) const {
    Own other = own();
    other.place += i;
    return other;
  }
};

template <class T, class Offset = ptrdiff_t>
struct CountingInputIterator : replay_iterator<CountingInputIterator<T, Offset>, T> {
  T first;
  explicit CountingInputIterator(const T& first) : first(first) {}
  T at(ptrdiff_t i) const { return (T)(first + (T)i); }
};
template <class T, class Offset = ptrdiff_t>
struct ConstantInputIterator : replay_iterator<ConstantInputIterator<T, Offset>, T> {
  T value;
  explicit ConstantInputIterator(const T& value) : value(value) {}
  T at(ptrdiff_t) const { return value; }
};
template <class T, class Op, class I, class Offset = ptrdiff_t>
struct TransformInputIterator : replay_iterator<TransformInputIterator<T, Op, I, Offset>, T> {
  I items;
  Op op;
  TransformInputIterator(I items, Op op) : items(items), op(op) {}
  T at(ptrdiff_t i) const { return op(items[i]); }
};
template <class I, class Offset = ptrdiff_t, class T = typename ::std::iterator_traits<I>::value_type>
struct ArgIndexInputIterator
    : replay_iterator<ArgIndexInputIterator<I, Offset, T>, KeyValuePair<Offset, T>> {
  I items;
  explicit ArgIndexInputIterator(I items) : items(items) {}
  KeyValuePair<Offset, T> at(ptrdiff_t i) const { return {(Offset)i, items[i]}; }
};

}  // namespace cub
