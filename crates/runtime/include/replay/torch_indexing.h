// Elements by index, repeated and in order: `index_select`, `gather`, `scatter_`, `repeat`, `stack`, `cumsum`, `sort`, `arange`, `range`.
// Computed on the host. Where several indices of a scatter name one element, the last one counts.
// PyTorch C++ API: "torch::index_select", "torch::scatter", "torch::sort" and their kin.
#pragma once

#include "replay/torch_math.h"

namespace replay_torch {
/// The lines of a tensor along one dimension: where each begins, and how far its elements are apart, in a packed order.
struct packed_lines {
  int64_t length, stride;
  std::vector<int64_t> starts;
  packed_lines(IntArrayRef sizes, int64_t dimension) : length(1), stride(1) {
    int64_t outer = 1;
    for (int64_t d = 0; d < static_cast<int64_t>(sizes.size()); d++) {
      if (d < dimension) outer *= sizes[d];
      if (d == dimension) length = sizes[d];
      if (d > dimension) stride *= sizes[d];
    }
    for (int64_t i = 0; i < outer; i++)
      for (int64_t j = 0; j < stride; j++) starts.push_back(i * length * stride + j);
  }
};
inline int64_t wrap_along(const at::Tensor& tensor, int64_t dimension) {
  const int64_t rank = std::max<int64_t>(tensor.dim(), 1);
  return wrap_dimension(dimension, rank, rank);
}
/// The elements of the integers `index`, each from 0 below `size`.
inline std::vector<int64_t> load_indices(const char* name, const at::Tensor& index, int64_t size, bool takes_int) {
  const ScalarType type = index.scalar_type();
  if (type != ScalarType::Long && !(takes_int && type == ScalarType::Int))
    fail(c10::str(name, "(): Expected dtype int", takes_int ? "32 or int64" : "64", " for index"));
  std::vector<int64_t> indices = load_all<int64_t>(index);
  for (int64_t i : indices)
    if (i < 0 || i >= size) fail(c10::str(name, "(): index ", i, " is out of bounds for dimension with size ", size));
  return indices;
}
/// Calls `visit(place, index, source)` for each element of `index`: the element that it names along `dimension` of a tensor of `sizes`,
/// the place in `index`, and the same place in a tensor of `source_sizes`.
template <class Visit>
void each_named(const char* name, IntArrayRef sizes, int64_t dimension, const at::Tensor& index, IntArrayRef source_sizes,
                Visit visit) {
  const size_t rank = sizes.size();
  if (static_cast<size_t>(index.dim()) != rank || source_sizes.size() != rank)
    fail(c10::str(name, "(): Index tensor must have the same number of dimensions as input tensor"));
  for (size_t d = 0; d < rank; d++)
    if ((static_cast<int64_t>(d) != dimension && index.size(d) > sizes[d]) || index.size(d) > source_sizes[d])
      fail(c10::str(name, "(): Expected index ", index.sizes(), " to be no larger than self ", sizes, " apart from dimension ",
                    dimension));
  const std::vector<int64_t> indices = load_indices(name, index, rank ? sizes[dimension] : 1, false);
  const std::vector<int64_t> strides = packed_strides(sizes), source_strides = packed_strides(source_sizes);
  std::vector<int64_t> at(rank, 0);
  for (size_t i = 0; i < indices.size(); i++) {
    int64_t place = 0, source = 0;
    for (size_t d = 0; d < rank; d++) {
      place += (static_cast<int64_t>(d) == dimension ? indices[i] : at[d]) * strides[d];
      source += at[d] * source_strides[d];
    }
    visit(place, i, source);
    for (size_t d = rank; d-- > 0 && ++at[d] == index.size(d);) at[d] = 0;
  }
}
/// `into` with elements of `from` at those that `index` names, by `merge`.
template <class Merge>
void scatter(const char* name, const at::Tensor& into, int64_t dimension, const at::Tensor& index, const at::Tensor& from,
             Merge merge) {
  if (into.scalar_type() != from.scalar_type()) fail(c10::str(name, "(): Expected self.dtype to be equal to src.dtype"));
  with_accumulate_type(into.scalar_type(), [&](auto zero) {
    using A = decltype(zero);
    std::vector<A> values = load_all<A>(into);
    const std::vector<A> sources = load_all<A>(from);
    each_named(name, into.sizes(), wrap_along(into, dimension), index, from.sizes(),
               [&](int64_t place, size_t, int64_t source) { merge(values[place], sources[source]); });
    into.copy_(store_all(values, into.sizes(), into.scalar_type(), into));
  });
}
/// The first element along `dimension` before which no other comes by `precedes`, and its index; a NaN comes before all.
template <class Precedes>
std::tuple<at::Tensor, at::Tensor> extreme_along(const char* name, const at::Tensor& tensor, int64_t dimension, bool keeps,
                                                 Precedes precedes) {
  const int64_t d = wrap_along(tensor, dimension);
  const packed_lines lines(tensor.sizes(), d);
  if (lines.length == 0)
    fail(c10::str(name, "(): Expected reduction dim ", d, " to have non-zero size."));
  std::vector<int64_t> sizes = tensor.sizes().vec();
  if (!sizes.empty() && keeps) sizes[d] = 1;
  if (!sizes.empty() && !keeps) sizes.erase(sizes.begin() + d);
  return with_accumulate_type(tensor.scalar_type(), [&](auto zero) {
    using A = decltype(zero);
    const std::vector<A> values = load_all<A>(tensor);
    std::vector<A> extremes;
    std::vector<int64_t> indices;
    for (int64_t start : lines.starts) {
      int64_t first = 0;
      for (int64_t i = 1; i < lines.length; i++) {
        const A best = values[start + first * lines.stride], value = values[start + i * lines.stride];
        if (best == best && (value != value || precedes(value, best))) first = i;
      }
      extremes.push_back(values[start + first * lines.stride]);
      indices.push_back(first);
    }
    return std::make_tuple(store_all(extremes, sizes, tensor.scalar_type(), tensor),
                           store_all(indices, sizes, ScalarType::Long, tensor));
  });
}
/// The numbers `start`, `start + step`, ... before `end`.
inline at::Tensor arange(const c10::Scalar& start, const c10::Scalar& end, const c10::Scalar& step,
                         c10::TensorOptions options) {
  const bool floats = start.isFloatingPoint() || end.isFloatingPoint() || step.isFloatingPoint();
  const double first = start.toDouble(), difference = step.toDouble();
  if (difference == 0) fail("step must be nonzero");
  if ((end.toDouble() - first) * difference < 0)
    fail("upper bound and larger bound inconsistent with step sign");
  const int64_t count = static_cast<int64_t>(std::ceil((end.toDouble() - first) / difference));
  const ScalarType type = options.dtype_opt() ? ScalarType(*options.dtype_opt()) : floats ? ScalarType::Float : ScalarType::Long;
  const at::Tensor like = at::empty({0}, options);
  const std::vector<int64_t> sizes{count};
  if (!floats) {
    std::vector<int64_t> numbers(count);
    for (int64_t i = 0; i < count; i++) numbers[i] = start.toLong() + i * step.toLong();
    return store_all(numbers, sizes, type, like);
  }
  std::vector<double> numbers(count);
  for (int64_t i = 0; i < count; i++) numbers[i] = first + i * difference;
  return store_all(numbers, sizes, type, like);
}
}  // namespace replay_torch

namespace at {
// Views as functions.
inline Tensor transpose(const Tensor& tensor, int64_t a, int64_t b, call_site = {}) { return tensor.transpose(a, b); }
inline Tensor permute(const Tensor& tensor, IntArrayRef order, call_site = {}) { return tensor.permute(order); }
inline Tensor t(const Tensor& tensor, call_site = {}) { return tensor.t(); }
inline Tensor select(const Tensor& tensor, int64_t d, int64_t index, call_site = {}) { return tensor.select(d, index); }
inline Tensor narrow(const Tensor& tensor, int64_t d, int64_t start, int64_t length, call_site = {}) {
  return tensor.narrow(d, start, length);
}
inline Tensor squeeze(const Tensor& tensor, int64_t dimension, call_site = {}) { return tensor.squeeze(dimension); }
inline Tensor squeeze(const Tensor& tensor, call_site = {}) { return tensor.squeeze(); }
inline Tensor unsqueeze(const Tensor& tensor, int64_t dimension, call_site = {}) { return tensor.unsqueeze(dimension); }
inline Tensor reshape(const Tensor& tensor, IntArrayRef sizes, call_site = {}) { return tensor.reshape(sizes); }
inline Tensor flatten(const Tensor& tensor, int64_t first = 0, int64_t last = -1, call_site = {}) {
  return tensor.flatten(first, last);
}
inline std::vector<Tensor> Tensor::split(int64_t size, int64_t dimension, call_site) const {
  if (size <= 0) replay_torch::fail(str("split expects split_size be non-negative, but got split_size=", size));
  std::vector<Tensor> parts;
  const int64_t length = this->size(dimension);
  for (int64_t start = 0; start < length || parts.empty(); start += size)
    parts.push_back(narrow(dimension, start, std::min(size, length - start)));
  return parts;
}
inline std::vector<Tensor> Tensor::chunk(int64_t chunks, int64_t dimension, call_site) const {
  if (chunks <= 0) replay_torch::fail(str("chunk expects `chunks` to be greater than 0, got: ", chunks));
  return split(std::max<int64_t>((size(dimension) + chunks - 1) / chunks, 1), dimension);
}
inline std::vector<Tensor> Tensor::unbind(int64_t dimension, call_site) const {
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < size(dimension); i++) parts.push_back(select(dimension, i));
  return parts;
}
inline std::vector<Tensor> split(const Tensor& tensor, int64_t size, int64_t dimension = 0, call_site = {}) {
  return tensor.split(size, dimension);
}
inline std::vector<Tensor> chunk(const Tensor& tensor, int64_t chunks, int64_t dimension = 0, call_site = {}) {
  return tensor.chunk(chunks, dimension);
}
inline std::vector<Tensor> unbind(const Tensor& tensor, int64_t dimension = 0, call_site = {}) {
  return tensor.unbind(dimension);
}

// Elements by index.
inline Tensor Tensor::index_select(int64_t dimension, const Tensor& index, call_site) const {
  if (index.dim() > 1) replay_torch::fail("index_select(): Index is supposed to be a vector");
  const int64_t d = replay_torch::wrap_along(*this, dimension);
  const std::vector<int64_t> indices =
      replay_torch::load_indices("index_select", index, dim() ? size(d) : 1, true);
  std::vector<int64_t> made_sizes = sizes().vec();
  if (dim()) made_sizes[d] = static_cast<int64_t>(indices.size());
  const Tensor made = empty(made_sizes, options());
  for (size_t i = 0; i < indices.size(); i++) {
    if (dim())
      made.select(d, i).copy_(select(d, indices[i]));
    else
      made.copy_(*this);
  }
  return made;
}
/// `t[rows]` and `t[mask]` of Python: one index or mask, along the first dimension.
inline Tensor Tensor::index(std::initializer_list<Tensor> indices, call_site) const {
  if (indices.size() != 1) replay_torch::fail("index() takes one tensor here");
  const Tensor& index = *indices.begin();
  if (index.scalar_type() == kBool) {
    if (index.dim() != 1) replay_torch::fail("index() takes masks of one dimension here");
    if (dim() && index.size(0) != size(0))
      replay_torch::fail(c10::str("The shape of the mask ", index.sizes(), " at index 0 does not match the shape of the indexed tensor ",
                                  sizes(), " at index 0"));
    return index_select(0, index.nonzero().select(1, 0));
  }
  std::vector<int64_t> made_sizes = index.sizes().vec();
  if (dim()) made_sizes.insert(made_sizes.end(), sizes().begin() + 1, sizes().end());
  return index_select(0, index.reshape({index.numel()})).reshape(made_sizes);
}
inline Tensor Tensor::gather(int64_t dimension, const Tensor& index, call_site) const {
  return replay_torch::with_accumulate_type(scalar_type(), [&](auto zero) {
    using A = decltype(zero);
    const std::vector<A> values = replay_torch::load_all<A>(*this);
    std::vector<A> gathered(index.numel());
    replay_torch::each_named("gather", sizes(), replay_torch::wrap_along(*this, dimension), index, index.sizes(),
                             [&](int64_t place, size_t i, int64_t) { gathered[i] = values[place]; });
    return replay_torch::store_all(gathered, index.sizes(), scalar_type(), *this);
  });
}
inline Tensor& Tensor::scatter_(int64_t dimension, const Tensor& index, const Tensor& from, call_site) const {
  replay_torch::scatter("scatter", *this, dimension, index, from, [](auto& into, auto value) { into = value; });
  return self();
}
inline Tensor& Tensor::scatter_(int64_t dimension, const Tensor& index, const Scalar& value, call_site) const {
  return scatter_(dimension, index, full(index.sizes(), value, options()));
}
inline Tensor& Tensor::scatter_add_(int64_t dimension, const Tensor& index, const Tensor& from, call_site) const {
  replay_torch::scatter("scatter_add", *this, dimension, index, from, [](auto& into, auto value) { into += value; });
  return self();
}
inline Tensor Tensor::scatter(int64_t dimension, const Tensor& index, const Tensor& from, call_site) const {
  return clone().scatter_(dimension, index, from);
}
inline Tensor Tensor::scatter_add(int64_t dimension, const Tensor& index, const Tensor& from, call_site) const {
  return clone().scatter_add_(dimension, index, from);
}
inline Tensor& Tensor::index_add_(int64_t dimension, const Tensor& index, const Tensor& from, const Scalar& alpha,
                                  call_site) const {
  const int64_t d = replay_torch::wrap_along(*this, dimension);
  const std::vector<int64_t> indices = replay_torch::load_indices("index_add", index, size(d), true);
  if (from.size(d) != static_cast<int64_t>(indices.size()))
    replay_torch::fail("index_add(): Number of indices should be equal to source.size(dim)");
  for (size_t i = 0; i < indices.size(); i++) select(d, indices[i]).add_(from.select(d, i), alpha);
  return self();
}
inline Tensor& Tensor::index_copy_(int64_t dimension, const Tensor& index, const Tensor& from, call_site) const {
  const int64_t d = replay_torch::wrap_along(*this, dimension);
  const std::vector<int64_t> indices = replay_torch::load_indices("index_copy", index, size(d), false);
  if (from.size(d) != static_cast<int64_t>(indices.size()))
    replay_torch::fail("index_copy(): Number of indices should be equal to source.size(dim)");
  for (size_t i = 0; i < indices.size(); i++) select(d, indices[i]).copy_(from.select(d, i));
  return self();
}
inline Tensor index_select(const Tensor& tensor, int64_t dimension, const Tensor& index, call_site = {}) {
  return tensor.index_select(dimension, index);
}
inline Tensor gather(const Tensor& tensor, int64_t dimension, const Tensor& index, call_site = {}) {
  return tensor.gather(dimension, index);
}
/// The indices of elements that are not zero, a row each.
inline Tensor Tensor::nonzero(call_site) const {
  const std::vector<int64_t> holds = replay_torch::load_all<int64_t>(ne(0));
  const std::vector<int64_t> strides = replay_torch::packed_strides(sizes());
  std::vector<int64_t> rows;
  int64_t count = 0;
  for (size_t i = 0; i < holds.size(); i++) {
    if (!holds[i]) continue;
    count++;
    for (int64_t d = 0; d < dim(); d++) rows.push_back(static_cast<int64_t>(i) / strides[d] % std::max<int64_t>(size(d), 1));
  }
  const std::vector<int64_t> made{count, dim()};
  return replay_torch::store_all(rows, made, kLong, *this);
}
inline Tensor nonzero(const Tensor& tensor, call_site = {}) { return tensor.nonzero(); }

// Copies of several tensors or of one several times.
inline Tensor stack(TensorList tensors, int64_t dimension = 0, call_site = {}) {
  if (tensors.size() == 0) replay_torch::fail("stack expects a non-empty TensorList");
  const int64_t rank = tensors[0].dim() + 1;
  const int64_t d = replay_torch::wrap_dimension(dimension, rank, rank);
  std::vector<Tensor> raised;
  for (size_t i = 0; i < tensors.size(); i++) {
    if (tensors[i].sizes().vec() != tensors[0].sizes().vec())
      replay_torch::fail(str("stack expects each tensor to be equal size, but got ", tensors[0].sizes(), " at entry 0 and ",
                             tensors[i].sizes(), " at entry ", i));
    raised.push_back(tensors[i].unsqueeze(d));
  }
  return cat(raised, d);
}
inline Tensor Tensor::repeat(IntArrayRef repeats, call_site) const {
  const int64_t rank = static_cast<int64_t>(repeats.size()), added = rank - dim();
  if (added < 0)
    replay_torch::fail("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  // Each dimension behind one for its repeats.
  std::vector<int64_t> single, expanded, joined;
  for (int64_t d = 0; d < rank; d++) {
    const int64_t size = d < added ? 1 : this->size(d - added);
    single.insert(single.end(), {1, size});
    expanded.insert(expanded.end(), {repeats[d], size});
    joined.push_back(repeats[d] * size);
  }
  return contiguous().view(single).expand(expanded).clone().view(joined);
}
inline Tensor Tensor::repeat_interleave(int64_t repeats, std::optional<int64_t> dimension, call_site) const {
  const Tensor lines = dimension ? *this : flatten();
  const int64_t d = replay_torch::wrap_along(lines, dimension.value_or(0));
  std::vector<int64_t> expanded = lines.sizes().vec(), joined = expanded;
  expanded.insert(expanded.begin() + d + 1, repeats);
  joined[d] *= repeats;
  return lines.unsqueeze(d + 1).expand(expanded).clone().view(joined);
}

// Along one dimension.
inline Tensor Tensor::cumsum(int64_t dimension, std::optional<ScalarType> type, call_site) const {
  const ScalarType made = type.value_or(isFloatingType(scalar_type()) ? scalar_type() : kLong);
  const replay_torch::packed_lines lines(sizes(), replay_torch::wrap_along(*this, dimension));
  return replay_torch::with_accumulate_type(made, [&](auto zero) {
    using A = decltype(zero);
    std::vector<A> values = replay_torch::load_all<A>(*this);
    for (int64_t start : lines.starts)
      for (int64_t i = 1; i < lines.length; i++)
        values[start + i * lines.stride] += values[start + (i - 1) * lines.stride];
    return replay_torch::store_all(values, sizes(), made, *this);
  });
}
inline Tensor cumsum(const Tensor& tensor, int64_t dimension, std::optional<ScalarType> type = std::nullopt, call_site = {}) {
  return tensor.cumsum(dimension, type);
}
inline std::tuple<Tensor, Tensor> Tensor::max(int64_t dimension, bool keeps, call_site) const {
  return replay_torch::extreme_along("max", *this, dimension, keeps, [](auto a, auto b) { return a > b; });
}
inline std::tuple<Tensor, Tensor> Tensor::min(int64_t dimension, bool keeps, call_site) const {
  return replay_torch::extreme_along("min", *this, dimension, keeps, [](auto a, auto b) { return a < b; });
}
inline std::tuple<Tensor, Tensor> max(const Tensor& tensor, int64_t dimension, bool keeps = false, call_site = {}) {
  return tensor.max(dimension, keeps);
}
inline std::tuple<Tensor, Tensor> min(const Tensor& tensor, int64_t dimension, bool keeps = false, call_site = {}) {
  return tensor.min(dimension, keeps);
}
inline Tensor Tensor::argmax(std::optional<int64_t> dimension, bool keeps, call_site) const {
  return dimension ? std::get<1>(max(*dimension, keeps)) : std::get<1>(flatten().max(0));
}
inline Tensor Tensor::argmin(std::optional<int64_t> dimension, bool keeps, call_site) const {
  return dimension ? std::get<1>(min(*dimension, keeps)) : std::get<1>(flatten().min(0));
}
inline Tensor Tensor::any(call_site) const { return ne(0).sum().ne(0); }
inline Tensor Tensor::all(call_site) const { return eq(0).sum().eq(0); }
/// The elements in order, and where each stood; equal ones keep their order, and a NaN is larger than all.
inline std::tuple<Tensor, Tensor> Tensor::sort(int64_t dimension, bool descending, call_site) const {
  const replay_torch::packed_lines lines(sizes(), replay_torch::wrap_along(*this, dimension));
  return replay_torch::with_accumulate_type(scalar_type(), [&](auto zero) {
    using A = decltype(zero);
    const std::vector<A> values = replay_torch::load_all<A>(*this);
    std::vector<A> sorted(values.size());
    std::vector<int64_t> places(values.size()), order(lines.length);
    const auto precedes = [](A a, A b) { return a < b || (b != b && a == a); };
    for (int64_t start : lines.starts) {
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
        const A a = values[start + i * lines.stride], b = values[start + j * lines.stride];
        return descending ? precedes(b, a) : precedes(a, b);
      });
      for (int64_t i = 0; i < lines.length; i++) {
        sorted[start + i * lines.stride] = values[start + order[i] * lines.stride];
        places[start + i * lines.stride] = order[i];
      }
    }
    return std::make_tuple(replay_torch::store_all(sorted, sizes(), scalar_type(), *this),
                           replay_torch::store_all(places, sizes(), kLong, *this));
  });
}
inline Tensor Tensor::argsort(int64_t dimension, bool descending, call_site) const {
  return std::get<1>(sort(dimension, descending));
}
inline std::tuple<Tensor, Tensor> sort(const Tensor& tensor, int64_t dimension = -1, bool descending = false, call_site = {}) {
  return tensor.sort(dimension, descending);
}
inline Tensor argsort(const Tensor& tensor, int64_t dimension = -1, bool descending = false, call_site = {}) {
  return tensor.argsort(dimension, descending);
}

// Numbers in a row, and products of matrices.
inline Tensor arange(const Scalar& end, TensorOptions options = {}, call_site = {}) {
  return replay_torch::arange(0, end, 1, options);
}
inline Tensor arange(const Scalar& start, const Scalar& end, TensorOptions options = {}, call_site = {}) {
  return replay_torch::arange(start, end, 1, options);
}
inline Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, TensorOptions options = {}, call_site = {}) {
  return replay_torch::arange(start, end, step, options);
}
/// The numbers `start`, `start + step`, ... up to `end`: floating-point ones, unless the options say otherwise.
inline Tensor range(const Scalar& start, const Scalar& end, const Scalar& step, TensorOptions options = {}, call_site = {}) {
  const double difference = step.toDouble();
  const double count = std::floor((end.toDouble() - start.toDouble()) / difference) + 1;
  if (!options.dtype_opt()) options = options.dtype(ScalarType::Float);
  // Half a step before the number behind the last one no error of rounding changes the count.
  return replay_torch::arange(start, start.toDouble() + (count - 0.5) * difference, step, options);
}
inline Tensor range(const Scalar& start, const Scalar& end, TensorOptions options = {}, call_site = {}) {
  return range(start, end, 1, options);
}
inline Tensor Tensor::bmm(const Tensor& other, call_site) const {
  if (dim() != 3 || other.dim() != 3 || size(0) != other.size(0) || size(2) != other.size(1))
    replay_torch::fail(str("batch1 and batch2 shapes cannot be multiplied (", sizes(), " and ", other.sizes(), ")"));
  const Tensor made = empty({size(0), size(1), other.size(2)}, options());
  for (int64_t i = 0; i < size(0); i++) made.select(0, i).copy_(select(0, i).mm(other.select(0, i)));
  return made;
}
inline Tensor Tensor::matmul(const Tensor& other, call_site) const {
  if (dim() == 0 || other.dim() == 0)
    replay_torch::fail(str("both arguments to matmul need to be at least 1D, but they are ", dim(), "D and ", other.dim(), "D"));
  // A vector is a row on the left and a column on the right.
  const Tensor left = dim() == 1 ? unsqueeze(0) : *this, right = other.dim() == 1 ? other.unsqueeze(1) : other;
  const int64_t rows = left.size(-2), columns = right.size(-1);
  const std::vector<int64_t> own(left.sizes().begin(), left.sizes().end() - 2);
  const std::vector<int64_t> others(right.sizes().begin(), right.sizes().end() - 2);
  const std::vector<int64_t> batch = replay_torch::broadcast_sizes(own, others);
  const int64_t count = replay_torch::count(batch);
  std::vector<int64_t> left_sizes = batch, right_sizes = batch, made_sizes = batch;
  left_sizes.insert(left_sizes.end(), {rows, left.size(-1)});
  right_sizes.insert(right_sizes.end(), {right.size(-2), columns});
  if (dim() > 1) made_sizes.push_back(rows);
  if (other.dim() > 1) made_sizes.push_back(columns);
  return left.expand(left_sizes)
      .reshape({count, rows, left.size(-1)})
      .bmm(right.expand(right_sizes).reshape({count, right.size(-2), columns}))
      .reshape(made_sizes);
}
inline Tensor bmm(const Tensor& a, const Tensor& b, call_site = {}) { return a.bmm(b); }
inline Tensor matmul(const Tensor& a, const Tensor& b, call_site = {}) { return a.matmul(b); }
}  // namespace at
