// Kernel launches from host code, and the shared memory of kernels.
// CUDA C++ Programming Guide: "Execution Configuration", "__shared__".
#pragma once

#include <typeinfo>

#include "replay/abi.h"
#include "replay/capture.h"
#include "replay/thread.h"

namespace replay_rt {

template <int... I> struct indices {};
template <int N, int... I> struct make_indices : make_indices<N - 1, N - 1, I...> {};
template <int... I> struct make_indices<0, I...> { using type = indices<I...>; };

template <class T> struct plain { using type = T; };
template <class T> struct plain<const T> { using type = T; };
template <class T> struct plain<T&> { using type = typename plain<T>::type; };
template <class T> struct plain<T&&> { using type = typename plain<T>::type; };

/// The kind of a kernel's argument for a parameter of type `T`.
template <class T> struct argument_kind {
  static constexpr uint8_t value = (__is_class(T) || __is_union(T)) && __is_trivially_copyable(T)
                                       ? REPLAY_ARGUMENT_CLASS
                                       : REPLAY_ARGUMENT_VALUE;
};
template <class T> struct argument_kind<T*> {
  static constexpr uint8_t value = REPLAY_ARGUMENT_POINTER;
};
template <class R, class... P> struct argument_kind<R (*)(P...)> {
  static constexpr uint8_t value = REPLAY_ARGUMENT_VALUE;
};
template <class T> struct argument_kind<T&> {
  static constexpr uint8_t value = REPLAY_ARGUMENT_REFERENCE;
};

/// The most bytes of all parameters of a kernel, references as pointers.
/// CUDA C++ Programming Guide: "__global__ Function Parameters".
constexpr size_t max_parameter_bytes = 32764;
template <class T> struct parameter_bytes { static constexpr size_t value = sizeof(T); };
template <class T> struct parameter_bytes<T&> { static constexpr size_t value = sizeof(T*); };

/// The launch bounds of one kernel, in the artifact's list of them.
struct launch_bounds {
  const void* function;
  uint32_t threads;
  uint32_t cluster[3];
  const launch_bounds* next;

  launch_bounds(const void* function, uint32_t threads, uint32_t x, uint32_t y, uint32_t z);
};
/// The bounds of `function`; null if it has none.
const launch_bounds* bounds_of(const void* function);

/// Puts the bounds of `Function` into the list when the artifact is loaded. The front end names
/// `known` in each kernel with bounds.
template <auto Function, uint32_t Threads, uint32_t X = 0, uint32_t Y = 0, uint32_t Z = 0>
struct bounded {
  static const launch_bounds entry;
  static constexpr bool known = &entry != nullptr;
};
template <auto Function, uint32_t Threads, uint32_t X, uint32_t Y, uint32_t Z>
const launch_bounds bounded<Function, Threads, X, Y, Z>::entry{
    reinterpret_cast<const void*>(Function), Threads, X, Y, Z};

/// Whether the artifact has library algorithms for the host, in a replay with kernels on a GPU.
extern bool has_host_algorithms;
/// Says so when the artifact is loaded, wherever `known` is used.
template <class Algorithm>
struct host_algorithm {
  static const bool known;
};
template <class Algorithm>
const bool host_algorithm<Algorithm>::known = has_host_algorithms = true;

/// A shape from a launch's integer or dim3.
inline dim3 shape(dim3 value) { return value; }

/// A configured launch; `run` performs it with arguments converted to the kernel's parameters.
template <class... P>
class configured {
 public:
  using function_type = void (*)(P...);

  configured(function_type function, void (*thunk)(void**), const char* name, replay_site site,
             dim3 grid, dim3 block, size_t shared_bytes, void* stream)
      : function_(function), thunk_(thunk) {
    launch_.kernel = name;
    launch_.site = site;
    launch_.function = reinterpret_cast<const void*>(function);
    launch_.grid[0] = grid.x, launch_.grid[1] = grid.y, launch_.grid[2] = grid.z;
    launch_.block[0] = block.x, launch_.block[1] = block.y, launch_.block[2] = block.z;
    launch_.shared_bytes = shared_bytes;
    launch_.stream = stream;
  }

  /// The same launch with all blocks running together.
  configured& cooperative() {
    launch_.cooperative = 1;
    return *this;
  }
  /// The same launch in clusters of so many blocks.
  configured& in_clusters(unsigned x, unsigned y, unsigned z) {
    launch_.cluster[0] = x, launch_.cluster[1] = y, launch_.cluster[2] = z;
    launch_.names_cluster = 1;
    return *this;
  }
  void replay_run(P... arguments) { run(static_cast<P&&>(arguments)...); }
  // Not deduced from the call: arguments convert to the parameters here, as in any call.
  void run(P... arguments) {
    static_assert((parameter_bytes<P>::value + ... + 0) <= max_parameter_bytes,
                  "the parameters of a kernel may have 32764 bytes");
    void* pointers[sizeof...(P) + 2] = {
        const_cast<void*>(static_cast<const volatile void*>(&arguments))...};
    const size_t sizes[sizeof...(P) + 1] = {sizeof(P)...};
    const uint8_t kinds[sizeof...(P) + 1] = {argument_kind<P>::value...};
    // A kernel known at run time only travels behind its arguments.
    pointers[sizeof...(P)] = reinterpret_cast<void*>(function_);
    launch_.thunk = thunk_;
    launch_.args = pointers;
    launch_.arg_sizes = sizes;
    launch_.arg_kinds = kinds;
    launch_.arg_count = sizeof...(P);
    if (const launch_bounds* bounds = bounds_of(launch_.function)) {
      launch_.max_threads = bounds->threads;
      for (int i = 0; i < 3; i++) {
        // 2: kernel and launch disagree.
        if (launch_.names_cluster && bounds->cluster[0] && launch_.cluster[i] != bounds->cluster[i])
          launch_.names_cluster = 2;
        if (!launch_.names_cluster) launch_.cluster[i] = bounds->cluster[i];
      }
    }
    submit(launch_);
  }

 private:
  function_type function_;
  void (*thunk_)(void**);
  replay_launch launch_ = {};
};

template <auto Function, class... P, int... I>
void fixed_thunk(void** arguments, indices<I...>) {
  (void)arguments;
  Function(*static_cast<typename plain<P>::type*>(arguments[I])...);
}

template <class... P, int... I>
void variable_thunk(void** arguments, indices<I...>) {
  auto function = reinterpret_cast<void (*)(P...)>(arguments[sizeof...(P)]);
  function(*static_cast<typename plain<P>::type*>(arguments[I])...);
}

/// A kernel and the place of its launch, before the configuration.
template <class... P>
struct launchable {
  void (*function)(P...);
  void (*thunk)(void**);
  const char* name;
  replay_site site;

  configured<P...> replay_on(dim3 grid, dim3 block, size_t shared_bytes = 0,
                             void* stream = nullptr) const {
    return on(grid, block, shared_bytes, stream);
  }
  configured<P...> on(dim3 grid, dim3 block, size_t shared_bytes = 0,
                      void* stream = nullptr) const {
    return {function, thunk, name, site, grid, block, shared_bytes, stream};
  }
};

template <auto Function, class... P>
launchable<P...> fixed_kernel(void (*function)(P...), const char* name, replay_site site) {
  return {function,
          [](void** arguments) {
            fixed_thunk<Function, P...>(arguments, typename make_indices<sizeof...(P)>::type{});
          },
          name, site};
}

// A type for a kernel: its mangled name holds the arguments of a template. __PRETTY_FUNCTION__
// lacks them in clang++ before 16.
template <auto Function>
struct instance {};

/// `name` as written, or with the arguments in `mangled`, the type's name, if the kernel is
/// an instance of a template.
const char* instance_name(const char* name, const char* mangled);

/// The name of the kernel at `function` as sources write it; `otherwise` if it has no symbol.
const char* kernel_name(const void* function, const char* otherwise);

/// The kernel `Function`, known at compile time.
template <auto Function>
auto kernel(const char* name, const char* file, uint32_t line) {
  static const char* const full = instance_name(name, typeid(instance<Function>).name());
  return fixed_kernel<Function>(Function, full, replay_site{file, line});
}

/// A kernel of a library behind a pointer.
template <class... P>
launchable<P...> library_kernel(void (*function)(P...), const char* name, const char* file,
                                uint32_t line) {
  return {function,
          [](void** arguments) {
            variable_thunk<P...>(arguments, typename make_indices<sizeof...(P)>::type{});
          },
          name, replay_site{file, line}};
}

/// A kernel of the sources behind a pointer, known at run time only; `otherwise` names it where its
/// symbol does not.
template <class... P>
launchable<P...> kernel_at(void (*function)(P...), const char* otherwise, const char* file,
                           uint32_t line) {
  const char* name = kernel_name(reinterpret_cast<const void*>(function), otherwise);
  return library_kernel(function, name, file, line);
}

/// Whether an expression of the type `Callee`, spelled `spelled`, names a kernel known at compile
/// time. Parentheses around a name make its type a reference, but `(b ? f : g)`, `(*p)` and a
/// variable are references, too.
template <class Callee>
struct named_callee {
  static constexpr bool value(const char*) { return false; }
};
template <class... P>
struct named_callee<void(P...)> {
  static constexpr bool value(const char*) { return true; }
};
template <class... P>
struct named_callee<void (&)(P...)> {
  static constexpr bool value(const char* spelled) {
    if (*spelled != '(' || spelled[1] == '*') return false;
    while (*spelled && *spelled != '?') ++spelled;
    return *spelled == 0;
  }
};
template <class Callee>
constexpr bool replay_names_kernel(const char* spelled) {
  return named_callee<Callee>::value(spelled);
}

/// The callee of a launch in a macro: the kernel `Named`, or where that is null any other behind a
/// pointer.
template <auto Named, class... P>
auto replay_callee(void (*function)(P...), const char* name, const char* file, uint32_t line) {
  if constexpr (Named == nullptr)
    return kernel_at(function, name, file, line);
  else
    return kernel<Named>(name, file, line);
}

/// Whether `Find` has an instance for arguments of the types `A`.
template <class... A>
struct finds_instance {
  template <class Find>
  static constexpr auto value(const Find* find)
      -> decltype((*find)(*static_cast<A*>(nullptr)...), true) {
    return true;
  }
  static constexpr bool value(...) { return false; }
};

/// A template without its arguments in the launch: `find` returns the instance by
/// overloading and deduction for the launch's own arguments.
template <class Find>
struct deduced_kernel {
  Find find;
  const char* name;
  replay_site site;

  struct launch {
    const deduced_kernel& deduced;
    dim3 grid, block;
    size_t shared_bytes;
    void* stream;

    template <auto Function, class... A>
    void run_instance(instance<Function>, A... arguments) const {
      kernel<Function>(deduced.name, deduced.site.file, deduced.site.line)
          .on(grid, block, shared_bytes, stream)
          .run(arguments...);
    }
    template <class... A>
    void replay_run(A... arguments) const {
      run(arguments...);
    }
    template <class... A>
    void run(A... arguments) const {
      static_assert(finds_instance<A...>::value(static_cast<const Find*>(nullptr)),
                    "no instance takes the arguments in the launch of the kernel");
      run_instance(deduced.find(arguments...), arguments...);
    }
  };

  launch replay_on(dim3 grid, dim3 block, size_t shared_bytes = 0, void* stream = nullptr) const {
    return on(grid, block, shared_bytes, stream);
  }
  launch on(dim3 grid, dim3 block, size_t shared_bytes = 0, void* stream = nullptr) const {
    return {*this, grid, block, shared_bytes, stream};
  }
};

template <class Find>
deduced_kernel<Find> kernel_deduced(Find find, const char* name, const char* file, uint32_t line) {
  return {find, name, replay_site{file, line}};
}

/// The same if the instance cannot be named: `call` passes its arguments on to the template. A GPU
/// cannot run it.
template <class Call>
struct passed_kernel {
  Call call;
  const char* name;
  replay_site site;

  struct launch {
    const passed_kernel& kernel;
    dim3 grid, block;
    size_t shared_bytes;
    void* stream;

    template <class... A>
    void replay_run(A... arguments) const {
      run(arguments...);
    }
    template <class... A>
    void run(A... arguments) const {
      // The call itself travels as the last argument.
      auto thunk = [](void** pointers) {
        invoke<A...>(pointers, typename make_indices<sizeof...(A)>::type{});
      };
      void* pointers[sizeof...(A) + 1] = {static_cast<void*>(&arguments)...};
      const size_t sizes[sizeof...(A) + 1] = {sizeof(A)...};
      const uint8_t kinds[sizeof...(A) + 1] = {argument_kind<A>::value...};
      // A call without captures is the same wherever it lies, also when a graph runs it later.
      static char empty;
      pointers[sizeof...(A)] = const_cast<Call*>(&kernel.call);
      if (__is_empty(Call)) pointers[sizeof...(A)] = &empty;
      if (!__is_empty(Call) && capture)
        abi->device_abort("a captured launch of a lambda with captures is not supported", kernel.site);
      replay_launch raw = {};
      raw.kernel = kernel.name;
      raw.thunk = thunk;
      raw.args = pointers;
      raw.arg_sizes = sizes;
      raw.arg_kinds = kinds;
      raw.arg_count = sizeof...(A);
      raw.grid[0] = grid.x, raw.grid[1] = grid.y, raw.grid[2] = grid.z;
      raw.block[0] = block.x, raw.block[1] = block.y, raw.block[2] = block.z;
      raw.shared_bytes = shared_bytes;
      raw.stream = stream;
      raw.site = kernel.site;
      submit(raw);
    }
  };

  template <class... A, int... I>
  static void invoke(void** pointers, indices<I...>) {
    (*static_cast<Call*>(pointers[sizeof...(A)]))(*static_cast<A*>(pointers[I])...);
  }

  launch replay_on(dim3 grid, dim3 block, size_t shared_bytes = 0, void* stream = nullptr) const {
    return on(grid, block, shared_bytes, stream);
  }
  launch on(dim3 grid, dim3 block, size_t shared_bytes = 0, void* stream = nullptr) const {
    return {*this, grid, block, shared_bytes, stream};
  }
};

template <class Call>
passed_kernel<Call> kernel_call(Call call, const char* name, const char* file, uint32_t line) {
  return {call, name, replay_site{file, line}};
}

// The same by reserved names, for launches in macros: their parameters may have the names
// above. So the members have second names too.
template <auto Function>
auto replay_kernel(const char* name, const char* file, uint32_t line) {
  return kernel<Function>(name, file, line);
}
template <class F>
auto replay_kernel_at(F function, const char* name, const char* file, uint32_t line) {
  return kernel_at(function, name, file, line);
}
template <class Find>
auto replay_kernel_deduced(Find find, const char* name, const char* file, uint32_t line) {
  return kernel_deduced(find, name, file, line);
}
template <class Call>
auto replay_kernel_call(Call call, const char* name, const char* file, uint32_t line) {
  return kernel_call(call, name, file, line);
}

template <class... P, int... I>
void launch_by_pointers(configured<P...> launch, void** arguments, indices<I...>) {
  launch.run(*static_cast<typename plain<P>::type*>(arguments[I])...);
}

/// `extern __shared__ T name[]` in a function: `Array` is `T[]`.
template <class Array>
Array& dynamic_shared() {
  return reinterpret_cast<Array&>(*block.dynamic_shared);
}

/// `extern __shared__ T name[]` at namespace scope.
template <class T>
struct dynamic_shared_array {
  constexpr dynamic_shared_array() {}
  template <class I> T& operator[](I index) const { return dynamic_shared<T[]>()[index]; }
  operator T*() const { return dynamic_shared<T[]>(); }
  template <class U> explicit operator U*() const {
    return reinterpret_cast<U*>(block.dynamic_shared);
  }
};

/// The array that a name stands for where it is cast or its address is taken. Other variables of its name
/// are themselves.
template <class T>
T (&shared_array(const dynamic_shared_array<T>&))[] { return dynamic_shared<T[]>(); }
template <class T>
T& shared_array(T& other) { return other; }

/// The bytes of a variable in shared memory. Arrays of integers, in which sources keep numbers too, have room for as many
/// in the float64 shadow as natively: twice as wide floats, and four times as wide halves.
template <class T>
inline constexpr size_t slot_bytes = sizeof(T);
#ifdef REPLAY_SHADOW
template <class T, size_t N>
inline constexpr size_t slot_bytes<T[N]> =
    !std::is_integral<std::remove_all_extents_t<T>>::value ? sizeof(T[N])
    : sizeof(std::remove_all_extents_t<T>) < 4             ? 4 * sizeof(T[N])
                                                           : 2 * sizeof(T[N]);
#endif

/// One static `__shared__` variable: each block has its own, made when it first runs past.
struct shared_slot {
  uint32_t number = 0;  // one more than the slot; 0 before the first use in the process

  template <class T>
  T& get(size_t alignment, const char* name) {
    const uint32_t mine = take_number();
    void* address = block.shared_slots[mine - 1];
    if (address == nullptr) {
      if (alignment < alignof(T)) alignment = alignof(T);
      address = abi->shared_alloc(mine - 1, slot_bytes<T>, alignment, name);
    }
    return *static_cast<T*>(address);
  }

 private:
#ifdef REPLAY_CHECKED
  // A checked replay has one core, and no access of the user's is here.
  __attribute__((noinline, no_sanitize("thread"))) uint32_t take_number() {
    if (number == 0) number = abi->shared_slot() + 1;
    return number;
  }
#else
  uint32_t take_number() {
    const uint32_t mine = __atomic_load_n(&number, __ATOMIC_RELAXED);
    if (mine != 0) return mine;
    uint32_t expected = 0, fresh = abi->shared_slot() + 1;
    // Two cores may come here at once; the loser's number stays unused.
    return __atomic_compare_exchange_n(&number, &expected, fresh, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED)
               ? fresh
               : expected;
  }
#endif
};

}  // namespace replay_rt
