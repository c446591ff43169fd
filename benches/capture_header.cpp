// What capturing by include/replay_capture.hpp costs: while it is off, and in a captured step against writing its
// bytes.
//
//     g++ -O2 -std=c++17 -Iinclude -o target/capture_header benches/capture_header.cpp && target/capture_header target
//
// Rounds of both take turns, so that a busy machine disturbs both alike; each figure is the median of them. The folder
// is the argument.
#include <replay_capture.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>

namespace {

template <class Act>
double seconds(Act act) {
  auto start = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A step that is not captured: its context, two inputs and an output.
void off(const std::string& folder) {
  std::vector<float> x(16);
  const int calls = 100000;
  std::vector<double> times;
  for (int round = 0; round < 9; round++) {
    times.push_back(seconds([&] {
      for (int step = 0; step < calls; step++) {
        replay::capture c(folder + "/step" + std::to_string(step), false);
        c.function("scaled").step(step).input("x", x.data(), {{"rows", 4}, {"columns", 4}}).input("scale", 2.0f);
        c.ready();
        c.output("out", x.data(), {{"rows", 4}, {"columns", 4}});
      }
    }));
  }
  std::printf("off: %.2f us a step\n", median(times) / calls * 1e6);
}

// Writes a file as a program that wants it on the disk: its bytes before its name, and then its folder.
void write(const std::string& path, const std::string& bytes) {
  replay::detail::publish(replay::detail::text_file(path, bytes), {});
}

void captured(const std::string& folder, std::size_t megabytes, int rounds) {
  std::string x(megabytes << 20, 'x'), out(megabytes << 20, 'y');
  std::vector<double> plain, whole;
  for (int round = 0; round < rounds; round++) {
    std::string home = folder + "/plain" + std::to_string(round), step = folder + "/step" + std::to_string(round);
    auto write_files = [&] {
      std::filesystem::create_directories(home);
      write(home + "/inputs", x);
      write(home + "/expected", out);
    };
    auto capture = [&] {
      replay::capture c(step);
      c.function("copy").strict(true).step(round).input("x", x.data(), replay::dtype::u8, {{"n", x.size()}});
      c.ready();
      c.output("out", out.data(), replay::dtype::u8, {{"n", out.size()}});
      c.finish();
    };
    // A disk that has just taken much takes less.
    if (round % 2 == 0) plain.push_back(seconds(write_files));
    whole.push_back(seconds(capture));
    if (round % 2 == 1) plain.push_back(seconds(write_files));
    std::filesystem::remove_all(home);
    std::filesystem::remove_all(step);
  }
  double ratio = median(whole) / median(plain);
  std::printf("on: %zu MB in %.1f ms, %.2f times writing them\n", 2 * megabytes, median(whole) * 1e3, ratio);
}

}  // namespace

int main(int count, char** arguments) {
  std::string folder = std::string(count > 1 ? arguments[1] : ".") + "/capture_header";
  off(folder);
  captured(folder, 1, 30);
  captured(folder, 16, 10);
  captured(folder, 128, 4);
  std::filesystem::remove_all(folder);
}
