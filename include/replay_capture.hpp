// Captures a step of a C++ or CUDA program as a fixture that `replay` reads. C++17, POSIX.
//
//     replay::capture c("fixtures/step0");
//     c.function("lm_loss_gradient").sources({"src/loss.cu"}).step(step);
//     c.input("logits", d_logits, {{"batch", 8}, {"seq", 32}, {"vocab", 34}});
//     c.input("targets", d_targets, {{"batch", 8}, {"seq", 32}});
//     c.ready();                                   // the inputs are on the disk
//     lm_loss_gradient(d_logits, d_targets, d_grad, 8, 32, 34);
//     c.gradient("grad_logits", "logits", d_grad, {{"batch", 8}, {"seq", 32}, {"vocab", 34}});
//
// Pointers may be of the host. Where nvcc or clang compiles for CUDA, or REPLAY_CAPTURE_CUDA is defined, they
// may be of a device, too; the device is then synchronised before each copy.
//
// Nothing here stops the program: errors are told once on stderr, unless strict(true) asks for exceptions.
// An object is used by one thread. docs/capture.md describes what is written. With glibc before 2.34 link by -pthread.
#ifndef REPLAY_CAPTURE_HPP
#define REPLAY_CAPTURE_HPP

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__CUDACC__) && !defined(REPLAY_CAPTURE_CUDA)
#define REPLAY_CAPTURE_CUDA
#endif
#ifdef REPLAY_CAPTURE_CUDA
#include <cuda_runtime_api.h>
#endif

// CUDA's own types, which are known by name alone where its headers are not included.
struct __half;
struct __nv_bfloat16;
struct __nv_fp8_e4m3;
struct __nv_fp8_e5m2;

namespace replay {

// The type of an element.
enum class dtype { f64, f32, f16, bf16, f8_e4m3, f8_e5m2, i64, i32, i16, i8, u64, u32, u16, u8, boolean };

// A dimension: a size with a name, or a number that never changes.
struct dim {
  std::string name;
  std::uint64_t size;

  template <class Size, class = std::enable_if_t<std::is_integral<Size>::value>>
  dim(std::string given, Size number) : name(std::move(given)), size(static_cast<std::uint64_t>(number)) {}
  template <class Size, class = std::enable_if_t<std::is_integral<Size>::value>>
  dim(Size number) : size(static_cast<std::uint64_t>(number)) {}
};

// The dimensions of a tensor, outermost first; none for a scalar.
using shape = std::vector<dim>;

// Elements between neighbours along each dimension; none for a packed tensor.
using strides = std::vector<std::uint64_t>;

namespace detail {

struct dtype_facts {
  std::size_t size;
  const char* harness;
  const char* file;
};

inline dtype_facts facts(dtype type) {
  switch (type) {
    case dtype::f64: return {8, "f64", "F64"};
    case dtype::f32: return {4, "f32", "F32"};
    case dtype::f16: return {2, "f16", "F16"};
    case dtype::bf16: return {2, "bf16", "BF16"};
    case dtype::f8_e4m3: return {1, "f8_e4m3", "F8_E4M3"};
    case dtype::f8_e5m2: return {1, "f8_e5m2", "F8_E5M2"};
    case dtype::i64: return {8, "i64", "I64"};
    case dtype::i32: return {4, "i32", "I32"};
    case dtype::i16: return {2, "i16", "I16"};
    case dtype::i8: return {1, "i8", "I8"};
    case dtype::u64: return {8, "u64", "U64"};
    case dtype::u32: return {4, "u32", "U32"};
    case dtype::u16: return {2, "u16", "U16"};
    case dtype::u8: return {1, "u8", "U8"};
    case dtype::boolean: break;
  }
  return {1, "bool", "BOOL"};
}

// The dtype of a C++ type. A type that has none does not compile.
template <class T>
constexpr dtype dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same<U, double>::value) {
    return dtype::f64;
  } else if constexpr (std::is_same<U, float>::value) {
    return dtype::f32;
  } else if constexpr (std::is_same<U, __half>::value) {
    return dtype::f16;
  } else if constexpr (std::is_same<U, __nv_bfloat16>::value) {
    return dtype::bf16;
  } else if constexpr (std::is_same<U, __nv_fp8_e4m3>::value) {
    return dtype::f8_e4m3;
  } else if constexpr (std::is_same<U, __nv_fp8_e5m2>::value) {
    return dtype::f8_e5m2;
  } else if constexpr (std::is_same<U, bool>::value) {
    return dtype::boolean;
  } else {
    static_assert(std::is_integral<U>::value, "this type has no dtype: pass a pointer to void and a dtype");
    constexpr bool is_signed = std::is_signed<U>::value;
    switch (sizeof(U)) {
      case 1: return is_signed ? dtype::i8 : dtype::u8;
      case 2: return is_signed ? dtype::i16 : dtype::u16;
      case 4: return is_signed ? dtype::i32 : dtype::u32;
      default: return is_signed ? dtype::i64 : dtype::u64;
    }
  }
}

// What cannot be captured; its text says why.
struct failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Bytes of a tensor. Nothing is in them at first, and large ones lie in large pages, which cost a copy less.
class elements {
 public:
  elements() = default;
  explicit elements(std::size_t size) : size_(size), data_(allocate(size)) {}
  char* data() { return data_.get(); }
  const char* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct release {
    void operator()(char* data) const { std::free(data); }
  };

  static char* allocate(std::size_t size) {
    const std::size_t page = std::size_t(2) << 20;
    bool large = size >= 2 * page;
    if (large && size > SIZE_MAX - page) throw failure("memory has not " + std::to_string(size) + " bytes");
    void* found = large ? std::aligned_alloc(page, (size + page - 1) / page * page) : std::malloc(size + 1);
    if (found == nullptr) throw failure("memory has not " + std::to_string(size) + " bytes");
#ifdef MADV_HUGEPAGE
    if (large) ::madvise(found, size, MADV_HUGEPAGE);
#endif
    return static_cast<char*>(found);
  }

  std::size_t size_ = 0;
  std::unique_ptr<char, release> data_;
};

struct tensor {
  std::string name;
  dtype type;
  shape dims;
  strides steps;
  std::uint64_t storage;
  std::string gradient_of;
};

[[noreturn]] inline void fail_with_errno(const std::string& what, const std::string& path) {
  throw failure("failed to " + what + " " + path + ": " + std::strerror(errno));
}

// Tells an error on stderr, once: what fails in every step says the same, but for the number of the step.
inline void tell(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> told;
  std::lock_guard<std::mutex> guard(mutex);
  std::string kind;
  for (char c : text) {
    bool digit = c >= '0' && c <= '9';
    if (!digit || kind.empty() || kind.back() != '0') kind += digit ? '0' : c;
  }
  if (told.insert(kind).second) std::fprintf(stderr, "replay: not captured: %s\n", text.c_str());
}

// Files

// A descriptor that is closed.
class descriptor {
 public:
  explicit descriptor(int number) : number_(number) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

inline std::string parent(const std::string& path) {
  std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

inline std::string leaf(const std::string& path) {
  std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

inline bool exists(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0;
}

// The real path of a file or folder that exists, else the path itself.
inline std::string real(const std::string& path) {
  char* found = ::realpath(path.c_str(), nullptr);
  std::string text = found != nullptr ? found : path;
  std::free(found);
  return text;
}

// Puts the names in a folder on the disk.
inline void sync_folder(const std::string& path) {
  descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.number() < 0 || ::fsync(folder.number()) != 0) fail_with_errno("write the folder", path);
}

// Makes a folder and those above it; `above` gets those with names that are not on the disk yet.
inline void make_folder(const std::string& path, std::vector<std::string>& above) {
  if (exists(path)) return;
  std::string home = parent(path);
  if (home != path) make_folder(home, above);
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) fail_with_errno("make the folder", path);
  above.push_back(home);
}

// A name in the folder of `path` that nobody else has, for what becomes `path` once it is whole.
inline std::string beside(const std::string& path) {
  std::random_device source;
  char mark[17];
  std::snprintf(mark, sizeof mark, "%08x%08x", static_cast<unsigned>(source()), static_cast<unsigned>(source()));
  return parent(path) + "/." + leaf(path) + "." + mark + ".part";
}

inline bool has_ending(const std::string& text, const std::string& ending) {
  return text.size() >= ending.size() && text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

// The names in a folder.
inline std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  DIR* folder = ::opendir(path.c_str());
  if (folder == nullptr) return names;
  while (const dirent* entry = ::readdir(folder)) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(folder);
  return names;
}

// Deletes a folder of files.
inline void remove_folder(const std::string& path) {
  for (const std::string& name : names_in(path)) ::unlink((path + "/" + name).c_str());
  ::rmdir(path.c_str());
}

// Keeps other threads and processes from what they do with this lock of a folder. Some file systems have none.
class folder_lock {
 public:
  explicit folder_lock(const std::string& path, bool waits = true)
      : folder_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (folder_.number() < 0) return;
    int result;
    do {
      result = ::flock(folder_.number(), LOCK_EX | (waits ? 0 : LOCK_NB));
    } while (result != 0 && errno == EINTR);
    held_ = result == 0;
  }
  folder_lock(const folder_lock&) = delete;
  folder_lock& operator=(const folder_lock&) = delete;
  // A process that was forked meanwhile has the descriptor, too.
  ~folder_lock() {
    if (held_) ::flock(folder_.number(), LOCK_UN);
  }
  bool held() const { return held_; }

 private:
  descriptor folder_;
  bool held_ = false;
};

// Deletes the folders that processes left in `home` which died while they wrote, once a process. `home` is locked.
inline void sweep(const std::string& home) {
  static std::mutex mutex;
  static std::set<std::string> swept;
  {
    std::lock_guard<std::mutex> guard(mutex);
    if (!swept.insert(home).second) return;
  }
  for (const std::string& name : names_in(home)) {
    if (name[0] != '.' || !has_ending(name, ".part")) continue;
    folder_lock lock(home + "/" + name, false);
    if (lock.held()) remove_folder(home + "/" + name);
  }
}

// A folder that becomes `path` with all its files, for the first who asks; else it is deleted.
class part_folder {
 public:
  explicit part_folder(const std::string& path) : path_(path), home_(real(path)), beside_(beside(home_)) {
    folder_lock guard(parent(home_));
    if (guard.held()) sweep(parent(home_));
    if (::mkdir(beside_.c_str(), 0777) != 0) fail_with_errno("make the folder", path_);
    // As long as it is locked its writer lives.
    lock_ = std::make_unique<folder_lock>(beside_);
  }
  part_folder(const part_folder&) = delete;
  part_folder& operator=(const part_folder&) = delete;
  ~part_folder() {
    if (!named_) remove_folder(beside_);
  }

  // Where it is at the moment.
  const std::string& place() const { return named_ ? home_ : beside_; }

  // Gives the folder its name. `last` is the file that stands for all. Into a folder that is there the files are
  // moved, the last at the end, where a lock keeps others from doing the same.
  void name(const std::string& last) {
    folder_lock guard(parent(home_));
    // Only a folder that is empty is replaced.
    if (::rename(beside_.c_str(), home_.c_str()) != 0) {
      if (errno != ENOTEMPTY && errno != EEXIST) fail_with_errno("make the folder", path_);
      if (!guard.held() || exists(home_ + "/" + last)) {
        throw failure(path_ + " holds a fixture already, which stays as it is");
      }
      move_files(last);
    }
    named_ = true;
    lock_.reset();
    struct stat status;
    if (::stat(home_.c_str(), &status) == 0) device_ = status.st_dev, number_ = status.st_ino;
  }

  // Throws where the folder is no longer the one that this made.
  void check_own() const {
    struct stat status;
    if (::stat(home_.c_str(), &status) != 0 || status.st_dev != device_ || status.st_ino != number_) {
      throw failure(path_ + " was removed or replaced while it was captured");
    }
  }

 private:
  void move_files(const std::string& last) {
    // What a process left that died.
    for (const std::string& left : names_in(home_)) {
      if (has_ending(left, ".safetensors") || has_ending(left, ".part")) ::unlink((home_ + "/" + left).c_str());
    }
    std::vector<std::string> names = names_in(beside_);
    for (std::size_t i = 0; i < names.size(); i++) {
      if (names[i] == last) std::swap(names[i], names.back());
    }
    for (const std::string& name : names) {
      if (::rename((beside_ + "/" + name).c_str(), (home_ + "/" + name).c_str()) != 0) {
        fail_with_errno("write", path_ + "/" + name);
      }
    }
    ::rmdir(beside_.c_str());
    sync_folder(home_);
  }

  std::string path_, home_, beside_;
  std::unique_ptr<folder_lock> lock_;
  dev_t device_ = 0;
  ino_t number_ = 0;
  bool named_ = false;
};

// Bytes that somebody else holds.
struct span {
  const char* data;
  std::size_t size;
};

// A file beside its place, which is deleted unless it gets its name.
class part_file {
 public:
  // The file `path`, which lies in `folder` where that is not its own yet.
  explicit part_file(const std::string& path, const std::string& folder = "")
      : path_(path),
        home_((folder.empty() ? parent(path) : folder) + "/" + leaf(path)),
        beside_(beside(home_)),
        file_(::open(beside_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
    if (file_.number() < 0) fail_with_errno("write", path_);
  }
  part_file(const part_file&) = delete;
  part_file& operator=(const part_file&) = delete;
  ~part_file() {
    if (!named_) ::unlink(beside_.c_str());
  }

  int number() const { return file_.number(); }
  const std::string& path() const { return path_; }

  void write(const span& bytes, std::uint64_t at) {
    // The system would end the program by a signal.
    rlimit most;
    bool is_limited = ::getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY;
    if (is_limited && bytes.size > 0 && (at > most.rlim_cur || bytes.size > most.rlim_cur - at)) {
      errno = EFBIG;
      fail_with_errno("write", path_);
    }
    std::size_t done = 0;
    while (done < bytes.size) {
      off_t place = static_cast<off_t>(at + done);
      ssize_t written = ::pwrite(number(), bytes.data + done, bytes.size - done, place);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail_with_errno("write", path_);
      done += static_cast<std::size_t>(written);
    }
  }

  void read(char* to, std::size_t size, std::uint64_t at) const {
    std::size_t done = 0;
    while (done < size) {
      ssize_t count = ::pread(number(), to + done, size - done, static_cast<off_t>(at + done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail_with_errno("read", path_);
      if (count == 0) throw failure("failed to read " + path_ + ": it has become shorter");
      done += static_cast<std::size_t>(count);
    }
  }

  // Gives the file its name.
  void name() {
    if (::rename(beside_.c_str(), home_.c_str()) != 0) fail_with_errno("write", path_);
    named_ = true;
  }

 private:
  std::string path_, home_, beside_;
  descriptor file_;
  bool named_ = false;
};

using part = std::unique_ptr<part_file>;

inline part text_file(const std::string& path, const std::string& text, const std::string& folder = "") {
  part made = std::make_unique<part_file>(path, folder);
  made->write({text.data(), text.size()}, 0);
  return made;
}

// Synchronises several files at a time, the first here and the others beside it: each waits for the disk however
// little there is to write, and what was written in one moment reaches it together.
inline void sync_together(const std::vector<int>& files, const std::string& path) {
  std::vector<int> errors(files.size(), 0);
  auto sync = [&](std::size_t i) { errors[i] = ::fsync(files[i]) == 0 ? 0 : errno; };
  auto sync_others = [&] {
    for (std::size_t i = 1; i < files.size(); i++) sync(i);
  };
  std::thread beside;
  try {
    if (files.size() > 1) beside = std::thread(sync_others);
  } catch (const std::system_error&) {
    sync_others();
  }
  if (!files.empty()) sync(0);
  if (beside.joinable()) beside.join();
  for (int error : errors) {
    errno = error;
    if (error != 0) fail_with_errno("write", path);
  }
}

// Puts files of one folder on the disk, and names in folders `above`. A file has its name once the bytes of all are
// on the disk, and the names come in the order of the files.
inline void publish(const std::vector<part>& files, const std::vector<std::string>& above) {
  const std::string& last = files.back()->path();
  std::vector<std::unique_ptr<descriptor>> folders;
  std::vector<int> numbers;
  for (const part& one : files) numbers.push_back(one->number());
  for (const std::string& folder : above) {
    folders.push_back(std::make_unique<descriptor>(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
    if (folders.back()->number() < 0) fail_with_errno("write the folder", folder);
    numbers.push_back(folders.back()->number());
  }
  sync_together(numbers, last);
  for (const part& one : files) one->name();
  sync_folder(parent(last));
}

// Puts a folder and files in it on the disk, and names in folders `above`. It has its name once all of it is on the
// disk.
inline void publish_folder(part_folder& folder, const std::vector<part>& files, const std::vector<std::string>& above) {
  for (const part& one : files) one->name();
  std::vector<std::unique_ptr<descriptor>> folders;
  std::vector<int> numbers;
  for (const part& one : files) numbers.push_back(one->number());
  std::vector<std::string> paths = above;
  paths.push_back(folder.place());
  for (const std::string& path : paths) {
    folders.push_back(std::make_unique<descriptor>(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
    if (folders.back()->number() < 0) fail_with_errno("write the folder", path);
    numbers.push_back(folders.back()->number());
  }
  sync_together(numbers, files.back()->path());
  folder.name(leaf(files.back()->path()));
  sync_folder(parent(folder.place()));
}

inline void publish(part file, const std::vector<std::string>& above) {
  std::vector<part> files;
  files.push_back(std::move(file));
  publish(files, above);
}

// The first `limit` bytes of a file, or what there is of it.
inline std::string read_file(const std::string& path, std::size_t limit) {
  descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(limit, '\0');
  ssize_t count = file.number() < 0 ? 0 : ::read(file.number(), &text[0], limit);
  text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return text;
}

// The path from one existing folder to another.
inline std::string relative(const std::string& to, const std::string& from) {
  std::string target = real(to) + "/", start = real(from) + "/";
  std::size_t common = 0;
  for (std::size_t i = 0; i < target.size() && i < start.size() && target[i] == start[i]; i++) {
    if (target[i] == '/') common = i + 1;
  }
  std::string path;
  for (std::size_t i = common; i < start.size(); i++) {
    if (start[i] == '/') path += "../";
  }
  path += target.substr(common);
  if (!path.empty()) path.pop_back();
  return path.empty() ? "." : path;
}

// The first line that a command prints, or nothing.
inline std::string first_line(const std::string& command) {
  std::string text;
  if (FILE* pipe = ::popen(command.c_str(), "r")) {
    char buffer[4096];
    if (std::fgets(buffer, sizeof buffer, pipe) != nullptr) text = buffer;
    while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) {
    }
    ::pclose(pipe);
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

inline std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// A text as TOML and JSON write it.
inline std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", byte);
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

inline std::string digest(const std::string& text) {
  // FNV-1a, 64 bits.
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  char out[17];
  std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(hash));
  return std::string(out, 12);
}

// Tensors

inline bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

inline bool is_identifier(const std::string& name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (char c : name) {
    if (!is_word(c)) return false;
  }
  return true;
}

// C++ without its comments.
inline std::string without_comments(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); i++) {
    bool line = text.compare(i, 2, "//") == 0;
    if (!line && text.compare(i, 2, "/*") != 0) {
      out += text[i];
      continue;
    }
    std::size_t end = text.find(line ? "\n" : "*/", i + 2);
    if (end == std::string::npos) break;
    i = line ? end : end + 1;
    out += ' ';
  }
  return out;
}

// The name of a parameter, as in `const float* x[] = nullptr`.
inline std::string parameter_name(std::string text) {
  text = text.substr(0, text.find('='));
  text = text.substr(0, text.find('['));
  while (!text.empty() && !is_word(text.back())) text.pop_back();
  std::size_t start = text.size();
  while (start > 0 && is_word(text[start - 1])) start--;
  return text.substr(start);
}

// The names between brackets that begin at `open`, and where the brackets end.
inline std::vector<std::string> names_between(const std::string& text, std::size_t open, std::size_t& close) {
  std::vector<std::string> names;
  std::string one;
  int depth = 0;
  for (close = open; close < text.size(); close++) {
    char c = text[close];
    if (c == '(' || c == '<' || c == '[' || c == '{') depth++;
    if (c == ')' || c == '>' || c == ']' || c == '}') depth--;
    if (depth == 0 || (depth == 1 && c == ',')) {
      if (!parameter_name(one).empty()) names.push_back(parameter_name(one));
      one.clear();
      if (depth == 0) break;
    } else if (close > open) {
      one += c;
    }
  }
  return names;
}

// The names of the parameters of a function that `text` defines; none if it does not.
inline std::vector<std::string> parameters(const std::string& text, const std::string& function) {
  std::string code = without_comments(text);
  for (std::size_t at = code.find(function); at != std::string::npos; at = code.find(function, at + 1)) {
    std::size_t open = code.find_first_not_of(" \t\n", at + function.size()), close = 0;
    bool whole = at > 0 && !is_word(code[at - 1]) && open != std::string::npos && code[open] == '(';
    if (!whole) continue;
    std::vector<std::string> names = names_between(code, open, close);
    std::size_t next = code.find_first_not_of(" \t\n", close + 1);
    if (next != std::string::npos && code[next] == '{') return names;
  }
  return {};
}

// Copies memory of the host, or of a device.
inline void copy(void* to, const void* from, std::size_t bytes, const std::string& name) {
  if (bytes == 0) return;
  if (from == nullptr) throw failure("`" + name + "` is a null pointer");
#ifdef REPLAY_CAPTURE_CUDA
  cudaError_t status = cudaDeviceSynchronize();
  if (status == cudaSuccess) status = cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
  if (status != cudaSuccess) {
    throw failure("failed to copy `" + name + "` from the device: " + cudaGetErrorString(status));
  }
#else
  std::memcpy(to, from, bytes);
#endif
}

inline std::uint64_t product(const std::string& name, const shape& dims) {
  std::uint64_t count = 1;
  for (const dim& one : dims) {
    if (one.size != 0 && count > (std::uint64_t(1) << 62) / one.size) {
      throw failure("`" + name + "` has more elements than memory has addresses");
    }
    count *= one.size;
  }
  return count;
}

// How many elements a tensor reaches, from its first to its last.
inline std::uint64_t reach(const shape& dims, const strides& steps) {
  std::uint64_t last = 0, most = std::uint64_t(1) << 62;
  for (std::size_t i = 0; i < dims.size(); i++) {
    if (dims[i].size == 0) return 0;
    if (steps[i] != 0 && dims[i].size - 1 > (most - last) / steps[i]) return most;
    last += (dims[i].size - 1) * steps[i];
  }
  return last + 1;
}

// Packs elements that lie at `steps` from each other.
inline elements pack(const elements& storage, const shape& dims, const strides& steps, std::size_t size,
                     std::uint64_t count) {
  elements packed(count * size);
  std::vector<std::uint64_t> index(dims.size(), 0);
  for (std::uint64_t done = 0; done < count; done++) {
    std::uint64_t place = 0;
    for (std::size_t i = 0; i < dims.size(); i++) place += index[i] * steps[i];
    std::memcpy(packed.data() + done * size, storage.data() + place * size, size);
    for (std::size_t i = dims.size(); i-- > 0;) {
      if (++index[i] < dims[i].size) break;
      index[i] = 0;
    }
  }
  return packed;
}

// A tensor as it is described, before its elements are read.
inline tensor describe(const std::string& name, dtype type, const shape& dims, const strides& steps) {
  if (!is_identifier(name)) throw failure("`" + name + "` is not an identifier of C++, as names of tensors are");
  for (const dim& one : dims) {
    if (!one.name.empty() && !is_identifier(one.name)) {
      throw failure("`" + name + "` has a size `" + one.name + "`, which is not an identifier of C++");
    }
  }
  if (!steps.empty() && steps.size() != dims.size()) {
    throw failure("`" + name + "` has " + std::to_string(steps.size()) + " strides for " +
                  std::to_string(dims.size()) + " dimensions");
  }
  std::uint64_t count = product(name, dims), storage = steps.empty() ? count : reach(dims, steps);
  // Elements may share their places: there may be more of them than places.
  std::uint64_t most = (std::uint64_t(1) << 62) / facts(type).size;
  if (count > most || storage > most) throw failure("`" + name + "` has more elements than memory has addresses");
  return {name, type, dims, steps, storage, ""};
}

template <class Number>
std::string list(const std::vector<Number>& numbers) {
  std::string text = "[";
  for (const Number& number : numbers) text += (text.size() > 1 ? "," : "") + std::to_string(number);
  return text + "]";
}

// What lies before the elements of a safetensors file: `least` bytes, or as many as it takes.
inline std::string header(const std::vector<tensor>& tensors, std::size_t least) {
  std::string entries, metadata;
  std::uint64_t end = 0;
  for (const tensor& one : tensors) {
    std::vector<std::uint64_t> sizes;
    for (const dim& dimension : one.dims) sizes.push_back(dimension.size);
    std::uint64_t start = end;
    end += product(one.name, one.dims) * facts(one.type).size;
    entries += std::string(entries.empty() ? "" : ",") + quoted(one.name) + ":{\"dtype\":\"" +
               facts(one.type).file + "\",\"shape\":" + list(sizes) +
               ",\"data_offsets\":" + list(std::vector<std::uint64_t>{start, end}) + "}";
    if (!one.steps.empty()) {
      metadata += std::string(metadata.empty() ? "" : ",") + quoted(one.name + ".strides") + ":" +
                  quoted(list(one.steps)) + "," + quoted(one.name + ".storage") + ":" +
                  quoted(std::to_string(one.storage));
    }
  }
  std::string text = "{" + (metadata.empty() ? "" : "\"__metadata__\":{" + metadata + "},") + entries + "}";
  if (entries.empty()) text = "{}";
  std::size_t size = (text.size() + 7) / 8 * 8;
  text.resize(size + 8 < least ? least - 8 : size, ' ');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; i++) length[i] = static_cast<char>(text.size() >> (8 * i));
  return length + text;
}

// A safetensors file whose tensors come one after the other: their elements go straight into the file, and what lies
// before them is written at the end, into the room that is left for it.
class tensor_file {
 public:
  explicit tensor_file(const std::string& path, const std::string& folder = "")
      : file_(std::make_unique<part_file>(path, folder)) {}

  // Adds a tensor's elements, which lie as it is described.
  void add(const tensor& described, const void* data) {
    std::size_t size = facts(described.type).size;
    if (described.steps.empty()) return add_packed(described, data, described.storage * size);
    elements bytes(described.storage * size);
    copy(bytes.data(), data, bytes.size(), described.name);
    std::uint64_t count = product(described.name, described.dims);
    elements packed = pack(bytes, described.dims, described.steps, size, count);
    append({packed.data(), packed.size()});
  }

  // Adds elements that lie in memory of the host.
  void append(const span& bytes) {
    file_->write(bytes, room_ + end_);
    end_ += bytes.size;
  }

  // The whole file, without its name.
  part finish(const std::vector<tensor>& tensors) {
    std::string head = header(tensors, room_);
    if (head.size() > room_) widen(head.size());
    file_->write({head.data(), head.size()}, 0);
    return std::move(file_);
  }

 private:
  void add_packed(const tensor& described, const void* data, std::size_t size) {
    if (size == 0) return;
    if (data == nullptr) throw failure("`" + described.name + "` is a null pointer");
#ifdef REPLAY_CAPTURE_CUDA
    elements bytes(size < stretch ? size : stretch);
    for (std::size_t at = 0; at < size; at += bytes.size()) {
      std::size_t count = size - at < bytes.size() ? size - at : bytes.size();
      copy(bytes.data(), static_cast<const char*>(data) + at, count, described.name);
      append({bytes.data(), count});
    }
#else
    append({static_cast<const char*>(data), size});
#endif
  }

  // Moves the elements behind a longer header, the last ones first.
  void widen(std::size_t room) {
    elements bytes(end_ < stretch ? end_ : stretch);
    for (std::uint64_t rest = end_; rest > 0;) {
      std::size_t count = rest < bytes.size() ? rest : bytes.size();
      rest -= count;
      file_->read(bytes.data(), count, room_ + rest);
      file_->write({bytes.data(), count}, room + rest);
    }
    room_ = room;
  }

  // What is copied at a time.
  static constexpr std::size_t stretch = std::size_t(16) << 20;

  part file_;
  std::uint64_t room_ = 4096, end_ = 0;
};

// The commit of the repository around a folder and whether its tree is dirty, as lines of TOML; asked for once.
inline std::string git_facts(const std::string& root) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  std::lock_guard<std::mutex> guard(mutex);
  auto found = known.find(root);
  if (found != known.end()) return found->second;
  std::string git = "git -C " + shell_quoted(root) + " ";
  std::string text, commit = first_line(git + "rev-parse --verify -q HEAD 2>/dev/null");
  if (!commit.empty()) {
    bool dirty = !first_line(git + "status --porcelain --untracked-files=no 2>/dev/null").empty();
    text = "commit = " + quoted(commit) + "\ndirty = " + (dirty ? "true" : "false") + "\n";
  }
  return known[root] = text;
}

}  // namespace detail

// A step that is captured into a folder; nothing if `on` is false.
class capture {
 public:
  explicit capture(std::string path, bool on = true, const char* file = __builtin_FILE(),
                   const char* function = __builtin_FUNCTION())
      : path_(std::move(path)), on_(on), file_(file), function_(function) {
    while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
  }
  capture(const capture&) = delete;
  capture& operator=(const capture&) = delete;

  // Writes what has not been written yet.
  ~capture() {
    strict_ = false;
    finish();
  }

  // What stands in the fixture's provenance.
  capture& step(long long number) { return set("step", std::to_string(number)); }
  capture& seed(long long number) { return set("seed", std::to_string(number)); }
  capture& model(const std::string& text) { return set("model", detail::quoted(text)); }

  // What `replay inspect` shows of the fixture.
  capture& description(std::string text) {
    description_ = std::move(text);
    return *this;
  }

  // A replay.toml that the fixture fits; without one it is drafted, from what follows.
  capture& harness(std::string path) {
    harness_ = std::move(path);
    return *this;
  }
  // The function to be called, else the one that this object was made in.
  capture& function(std::string name) {
    function_ = std::move(name);
    return *this;
  }
  // The statements to be compiled, else a call of the function: inputs, outputs, sizes.
  capture& call(std::string statements) {
    call_ = std::move(statements);
    return *this;
  }
  // Sources from the repository's root, else the file that this object was made in.
  capture& sources(std::vector<std::string> paths) {
    sources_ = std::move(paths);
    return *this;
  }
  // Folders of headers from the repository's root.
  capture& include(std::vector<std::string> paths) {
    include_ = std::move(paths);
    return *this;
  }

  // Whether errors are thrown, as std::runtime_error.
  capture& strict(bool on) {
    strict_ = on;
    return *this;
  }

  // Captures an input; all of them come before the function is called.
  template <class T, class = std::enable_if_t<!std::is_void<T>::value>>
  capture& input(const std::string& name, const T* data, const shape& dims, const strides& steps = {}) {
    return input(name, data, detail::dtype_of<T>(), dims, steps);
  }
  template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>>
  capture& input(const std::string& name, T scalar) {
    return input_scalar(name, &scalar, detail::dtype_of<T>());
  }
  capture& input(const std::string& name, const void* data, dtype type, const shape& dims,
                 const strides& steps = {}) {
    guarded([&] {
      if (ready_) throw detail::failure("input `" + name + "` comes after ready() or an output");
      detail::tensor described = check(detail::describe(name, type, dims, steps));
      if (inputs_file_ == nullptr) begin();
      inputs_file_->add(described, data);
      inputs_.push_back(std::move(described));
    });
    return *this;
  }

  // Puts the inputs on the disk, so that a crash of what follows can be replayed.
  bool ready() {
    if (!on_ || failed_ || ready_) return ready_;
    guarded([&] { write_inputs(); });
    return ready_;
  }

  // Captures an output, once the function has returned.
  template <class T, class = std::enable_if_t<!std::is_void<T>::value>>
  capture& output(const std::string& name, const T* data, const shape& dims) {
    return output(name, data, detail::dtype_of<T>(), dims);
  }
  template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>>
  capture& output(const std::string& name, T scalar) {
    return add_output(name, "", &scalar, detail::dtype_of<T>(), {}, true);
  }
  capture& output(const std::string& name, const void* data, dtype type, const shape& dims) {
    return add_output(name, "", data, type, dims, false);
  }

  // Captures an output that is the gradient with respect to the input `of`.
  template <class T, class = std::enable_if_t<!std::is_void<T>::value>>
  capture& gradient(const std::string& name, const std::string& of, const T* data, const shape& dims) {
    return gradient(name, of, data, detail::dtype_of<T>(), dims);
  }
  capture& gradient(const std::string& name, const std::string& of, const void* data, dtype type,
                    const shape& dims) {
    return add_output(name, of, data, type, dims, false);
  }

  // Writes the outputs; nothing can be added afterwards.
  bool finish() {
    if (!on_ || failed_ || finished_ || inputs_.empty()) return finished_;
    ready();
    guarded([&] {
      if (!outputs_.empty()) {
        folder_->check_own();
        std::string text = manifest();
        if (text != manifest_) detail::publish(detail::text_file(path_ + "/fixture.toml", text), {});
        detail::publish(outputs_file_->finish(outputs_), {});
      }
      finished_ = true;
    });
    return finished_;
  }

  // Why the step was not captured, or nothing.
  const std::string& error() const { return error_; }

 private:
  template <class Act>
  void guarded(Act act) {
    if (!on_ || failed_ || finished_) return;
    try {
      act();
    } catch (const std::exception& failure) {
      failed_ = true;
      error_ = failure.what();
      forget();
      if (strict_) throw std::runtime_error(error_);
      detail::tell(error_);
    }
  }

  capture& set(const char* key, std::string value) {
    provenance_.emplace_back(key, std::move(value));
    return *this;
  }

  capture& input_scalar(const std::string& name, const void* data, dtype type) {
    guarded([&] {
      if (ready_) throw detail::failure("input `" + name + "` comes after ready() or an output");
      detail::tensor described = check(detail::describe(name, type, {}, {}));
      if (inputs_file_ == nullptr) begin();
      // Scalars lie on the host, whatever the program is compiled for.
      inputs_file_->append({static_cast<const char*>(data), detail::facts(type).size});
      inputs_.push_back(std::move(described));
    });
    return *this;
  }

  capture& add_output(const std::string& name, const std::string& of, const void* data, dtype type,
                      const shape& dims, bool on_host) {
    ready();
    guarded([&] {
      detail::tensor described = detail::describe(name, type, dims, {});
      if (!of.empty() && !known(inputs_, of)) {
        throw detail::failure("`" + name + "` is the gradient of `" + of + "`, which is not an input");
      }
      described = check(std::move(described));
      described.gradient_of = of;
      if (outputs_file_ == nullptr) {
        folder_->check_own();
        outputs_file_ = std::make_unique<detail::tensor_file>(path_ + "/expected.safetensors");
      }
      if (on_host) {
        outputs_file_->append({static_cast<const char*>(data), detail::facts(type).size});
      } else {
        outputs_file_->add(described, data);
      }
      outputs_.push_back(std::move(described));
    });
    return *this;
  }

  static bool known(const std::vector<detail::tensor>& tensors, const std::string& name) {
    for (const detail::tensor& one : tensors) {
      if (one.name == name) return true;
    }
    return false;
  }

  // A tensor that has a name of its own, and sizes as the others have them.
  detail::tensor check(detail::tensor described) {
    if (known(inputs_, described.name) || known(outputs_, described.name)) {
      throw detail::failure("two tensors are called `" + described.name + "`");
    }
    for (const dim& one : described.dims) {
      if (!one.name.empty()) agree(one, described.name);
    }
    return described;
  }

  void agree(const dim& one, const std::string& name) {
    for (const dim& size : sizes_) {
      if (size.name != one.name) continue;
      if (size.size == one.size) return;
      throw detail::failure(one.name + " is " + std::to_string(size.size) + ", but " + std::to_string(one.size) +
                            " by `" + name + "`");
    }
    sizes_.push_back(one);
  }

  // Makes what becomes the folder, and the file that the inputs go into.
  void begin() {
    if (detail::exists(path_ + "/fixture.toml")) {
      throw detail::failure(path_ + " holds a fixture already, which stays as it is");
    }
    detail::make_folder(detail::parent(path_), above_);
    folder_ = std::make_unique<detail::part_folder>(path_);
    inputs_file_ = std::make_unique<detail::tensor_file>(path_ + "/inputs.safetensors", folder_->place());
  }

  void write_inputs() {
    if (inputs_.empty()) throw detail::failure(path_ + " has no inputs");
    manifest_ = manifest();
    std::vector<detail::part> files;
    files.push_back(inputs_file_->finish(inputs_));
    files.push_back(detail::text_file(path_ + "/fixture.toml", manifest_, folder_->place()));
    detail::publish_folder(*folder_, files, above_);
    ready_ = true;
  }

  // Deletes what is no part of a fixture.
  void forget() {
    inputs_file_.reset();
    outputs_file_.reset();
    folder_.reset();
  }

  // The text of fixture.toml; its harness is drafted if it is not there.
  std::string manifest() const {
    std::string harness = harness_.empty() ? place_harness() : harness_;
    std::string way = detail::relative(detail::parent(harness), folder_->place());
    std::string text = "harness = " + detail::quoted(way + "/" + detail::leaf(harness)) + "\n";
    std::string about = description_.empty() ? "a call of " + function_ : description_;
    text += "description = " + detail::quoted(about) + "\n\n[provenance]\n";
    for (const auto& fact : provenance_) text += fact.first + " = " + fact.second + "\n";
    text += facts_text() + "\n[[files]]\npath = \"inputs.safetensors\"\n";
    return text;
  }

  std::string facts_text() const {
    std::string text = detail::git_facts(root());
    std::string command = detail::read_file("/proc/self/cmdline", 1 << 16);
    while (!command.empty() && command.back() == '\0') command.pop_back();
    for (char& c : command) c = c == '\0' ? ' ' : c;
    if (!command.empty()) text += "command = " + detail::quoted(command) + "\n";
    return text + device_text();
  }

  static std::string device_text() {
    std::string framework = "C++", device = "cpu", versions = "compiler = " + detail::quoted(__VERSION__);
#ifdef REPLAY_CAPTURE_CUDA
    framework = "CUDA";
    int number = 0, runtime = 0, driver = 0;
    cudaDeviceProp properties;
    if (cudaGetDevice(&number) == cudaSuccess && cudaGetDeviceProperties(&properties, number) == cudaSuccess) {
      device = properties.name;
    }
    if (cudaRuntimeGetVersion(&runtime) == cudaSuccess && cudaDriverGetVersion(&driver) == cudaSuccess) {
      versions += ", cuda = " + version_text(runtime) + ", driver_cuda = " + version_text(driver);
    }
#endif
    return "framework = " + detail::quoted(framework) + "\ndevice = " + detail::quoted(device) + "\nversions = { " +
           versions + " }\n";
  }

#ifdef REPLAY_CAPTURE_CUDA
  // A version of CUDA: 13000 is 13.0.
  static std::string version_text(int number) {
    return detail::quoted(std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10));
  }
#endif

  // The folder that the source lies in, if it is on this machine, else the working directory.
  std::string home() const { return detail::exists(file_) ? detail::parent(file_) : "."; }

  // The root of the repository around it, or itself.
  std::string root() const {
    std::string start = detail::real(home());
    for (std::string at = start; at.size() > 1; at = detail::parent(at)) {
      if (detail::exists(at + "/.git")) return at;
    }
    return start;
  }

  // The drafted harness

  static std::string shape_text(const detail::tensor& one) {
    std::string text;
    for (const dim& size : one.dims) {
      text += text.empty() ? "" : ", ";
      text += size.name.empty() ? std::to_string(size.size) : detail::quoted(size.name);
    }
    return "[" + text + "]";
  }

  static std::string table(const char* kind, const detail::tensor& one) {
    std::string text = std::string("\n[") + kind + "." + one.name + "]\n";
    text += std::string("dtype = \"") + detail::facts(one.type).harness + "\"\n";
    text += "shape = " + shape_text(one) + "\n";
    if (!one.gradient_of.empty()) text += "gradient_of = " + detail::quoted(one.gradient_of) + "\n";
    return text;
  }

  // The parameters of the function, where they are known by name and take all that was captured.
  std::vector<std::string> signature() const {
    for (const std::string& source : sources_.empty() ? std::vector<std::string>{source_of_this()} : sources_) {
      std::vector<std::string> names = detail::parameters(detail::read_file(root() + "/" + source, 1 << 22), function_);
      std::set<std::string> taken(names.begin(), names.end());
      bool all = !names.empty();
      for (const detail::tensor& one : inputs_) all = all && taken.count(one.name) == 1;
      int returned = 0;
      for (const detail::tensor& one : outputs_) {
        bool is_result = one.dims.empty() && taken.count(one.name) == 0;
        all = all && (is_result ? ++returned == 1 : taken.count(one.name) == 1);
      }
      for (const std::string& name : names) all = all && is_known(name);
      if (all) return names;
    }
    return {};
  }

  // Whether this is a tensor or a size.
  bool is_known(const std::string& name) const {
    for (const dim& size : sizes_) {
      if (size.name == name) return true;
    }
    return known(inputs_, name) || known(outputs_, name);
  }

  // A call of the function by its signature.
  std::string call_of(const std::vector<std::string>& names) const {
    std::string arguments, result;
    for (const std::string& name : names) arguments += (arguments.empty() ? "" : ", ") + reference(name);
    for (const detail::tensor& one : outputs_) {
      bool is_passed = false;
      for (const std::string& name : names) is_passed = is_passed || name == one.name;
      if (!is_passed) result = one.name + " = ";
    }
    return result + function_ + "(" + arguments + ");";
  }

  // An argument: outputs without dimensions are variables of the call.
  std::string reference(const std::string& name) const {
    for (const detail::tensor& one : outputs_) {
      if (one.name == name && one.dims.empty()) return "&" + name;
    }
    return name;
  }

  // The statements of the harness: the user's, a call by the function's signature, or a guess.
  std::string call_text() const {
    if (!call_.empty()) return call_;
    std::vector<std::string> names = signature();
    return names.empty() ? guessed_call() : call_of(names);
  }

  // A call with inputs, outputs and sizes in the order in which they were captured.
  std::string guessed_call() const {
    std::string arguments, result;
    auto pass = [&](const std::string& text) { arguments += (arguments.empty() ? "" : ", ") + text; };
    for (const detail::tensor& one : inputs_) pass(one.name);
    for (const detail::tensor& one : outputs_) {
      if (one.dims.empty() && result.empty()) {
        result = one.name + " = ";
      } else {
        pass(one.dims.empty() ? "&" + one.name : one.name);
      }
    }
    for (const dim& size : sizes_) pass(size.name);
    return result + function_ + "(" + arguments + ");";
  }

  static std::string list_text(const std::vector<std::string>& items) {
    std::string text;
    for (const std::string& item : items) text += (text.empty() ? "" : ", ") + detail::quoted(item);
    return "[" + text + "]";
  }

  std::string source_of_this() const {
    std::string folder = detail::relative(home(), root());
    return folder == "." ? detail::leaf(file_) : folder + "/" + detail::leaf(file_);
  }

  std::string harness_text(const std::string& head, const std::string& folder) const {
    std::string text = head + "\n";
    if (outputs_.empty()) text += "# The function had not returned, so that its outputs are not known: name them below.\n";
    if (call_.empty() && signature().empty()) {
      text += "# The call is a guess: inputs, outputs and sizes in the order of the capture.\n";
    }
    if (detail::exists(root() + "/.git")) {
      text += "repository = " + detail::quoted(detail::relative(root(), folder)) + "\n";
    }
    text += "sources = " + list_text(sources_.empty() ? std::vector<std::string>{source_of_this()} : sources_) + "\n";
    if (!include_.empty()) text += "include = " + list_text(include_) + "\n";
    text += "call = " + detail::quoted(call_text()) + "\n";
    for (const detail::tensor& one : inputs_) text += table("inputs", one);
    for (const detail::tensor& one : outputs_) text += table("outputs", one);
    if (outputs_.empty()) text += "\n[outputs.not_known_yet]\ndtype = \"f32\"\nshape = []\n";
    return text;
  }

  // The harness beside the fixture that fits it: found there, or drafted.
  std::string place_harness() const {
    std::string inputs, outputs;
    for (const detail::tensor& one : inputs_) inputs += table("inputs", one);
    for (const detail::tensor& one : outputs_) outputs += table("outputs", one);
    std::string call = "# Drafted for call " + detail::digest(function_ + call_ + inputs) + ", results ";
    std::string results = outputs_.empty() ? "unknown" : detail::digest(outputs);
    std::string name = detail::is_identifier(function_) ? function_ : "function";
    // Another thread or process may draft one in this moment.
    detail::folder_lock guard(detail::parent(path_));
    for (int number = 1;; number++) {
      std::string folder = detail::parent(path_) + "/harness-" + name;
      if (number > 1) folder += "-" + std::to_string(number);
      std::string path = folder + "/replay.toml", head = detail::read_file(path, 256);
      head = head.substr(0, head.find('\n'));
      bool fits = head.compare(0, call.size(), call) == 0;
      std::string found = fits ? head.substr(call.size(), head.find('.', call.size()) - call.size()) : "";
      if (fits && (outputs_.empty() || found == results)) return path;
      if (detail::exists(path) && found != "unknown") continue;
      std::vector<std::string> above;
      detail::make_folder(folder, above);
      std::string text = harness_text(call + results + ". It is yours now.", folder);
      detail::publish(detail::text_file(path, text), above);
      return path;
    }
  }

  std::string path_;
  bool on_;
  std::string file_;
  std::string function_;
  std::string description_, harness_, call_;
  std::vector<std::string> sources_, include_;
  std::vector<std::pair<std::string, std::string>> provenance_;
  std::vector<detail::tensor> inputs_, outputs_;
  std::vector<dim> sizes_;
  std::unique_ptr<detail::tensor_file> inputs_file_, outputs_file_;
  // Folders with names that are not on the disk yet.
  std::vector<std::string> above_;
  std::unique_ptr<detail::part_folder> folder_;
  std::string manifest_;
  std::string error_;
  bool strict_ = false, ready_ = false, finished_ = false, failed_ = false;
};

}  // namespace replay

#endif  // REPLAY_CAPTURE_HPP
