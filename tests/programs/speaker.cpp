// A program that speaks replay's protocol, in both of its forms, for the tests. The "code" of a
// revision is the file kernel.txt of its tree, or of the folder `moved` there: one word and its argument in a line.
//
// It computes loss = sum(x * x) / (2 * D) and dx = x / D, in float, or in double where it is asked for
// float64. Other words make it do what programs should not.
#include <cfenv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attacks.h"

using Words = std::multimap<std::string, std::string>;

static std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return "";
  std::stringstream all;
  all << file.rdbuf();
  return all.str();
}

// The value of `key` in a flat JSON object without escapes.
static std::string field(const std::string& json, const std::string& key) {
  size_t at = json.find("\"" + key + "\"");
  if (at == std::string::npos) return "";
  at = json.find_first_not_of(" :", at + key.size() + 2);
  if (json[at] == '"') return json.substr(at + 1, json.find('"', at + 1) - at - 1);
  return json.substr(at, json.find_first_of(",}]", at) - at);
}

static Words kernel(const std::string& tree) {
  Words words;
  std::string text = text_of(tree + "/kernel.txt");
  std::istringstream lines(text.empty() ? text_of(tree + "/moved/kernel.txt") : text);
  for (std::string line; std::getline(lines, line);) {
    size_t space = line.find(' ');
    if (!line.empty())
      words.insert({line.substr(0, space), space == std::string::npos ? "" : line.substr(space + 1)});
  }
  return words;
}

// The input x, as double.
static std::vector<double> input(const std::string& path) {
  std::string file = text_of(path);
  uint64_t length;
  std::memcpy(&length, file.data(), 8);
  std::string header = file.substr(8, length);
  size_t at = header.find("\"x\"");
  std::string entry = header.substr(at, header.find('}', at) - at);
  std::string offsets = entry.substr(entry.find('[', entry.find("data_offsets")) + 1);
  size_t begin = std::stoul(offsets), end = std::stoul(offsets.substr(offsets.find(',') + 1));
  bool wide = entry.find("\"F64\"") != std::string::npos;
  std::vector<double> x((end - begin) / (wide ? 8 : 4));
  for (size_t i = 0; i < x.size(); i++) {
    const char* place = file.data() + 8 + length + begin + i * (wide ? 8 : 4);
    float narrow;
    if (wide) std::memcpy(&x[i], place, 8);
    else std::memcpy(&narrow, place, 4), x[i] = narrow;
  }
  return x;
}

struct Tensor {
  std::string name, dtype, shape;
  std::string bytes;
};

template <class T>
static Tensor tensor(const char* name, const std::vector<T>& values, const std::string& shape) {
  std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return {name, T(0.5) == T(0) ? "I32" : sizeof(T) == 8 ? "F64" : "F32", shape, bytes};
}

static void write(const std::string& path, const std::vector<Tensor>& tensors, bool half) {
  std::string header = "{", data;
  for (const Tensor& one : tensors) {
    size_t begin = data.size();
    data += one.bytes;
    header += (header.size() > 1 ? ",\"" : "\"") + one.name + "\":{\"dtype\":\"" + one.dtype +
              "\",\"shape\":" + one.shape + ",\"data_offsets\":[" + std::to_string(begin) + "," +
              std::to_string(data.size()) + "]}";
  }
  header += "}";
  uint64_t length = header.size();
  std::string all(reinterpret_cast<const char*>(&length), 8);
  all += header + data;
  if (half) all.resize(all.size() - data.size() / 2);
  std::ofstream(path + ".part", std::ios::binary) << all;
  std::rename((path + ".part").c_str(), path.c_str());
}

struct Request {
  std::string inputs, outputs, answer, tree, precision, rounding, surroundings, casts, order;
};

// How many replays this process has made before.
static int replays = 0;

// Outputs of which each shows an ability of a backend (`backends.rs`).
template <class T>
static std::vector<Tensor> abilities(const std::vector<double>& x, const Request& request) {
  std::vector<T> copy, third, half;
  std::vector<int32_t> places;
  for (size_t i = 0; i < x.size(); i++) {
    volatile T element = T(x[i]), divisor = T(3);
    volatile T quotient = element / divisor;
    copy.push_back(T(element));
    third.push_back(T(quotient));
    // Beyond its first half it shows what lies around tensors.
    half.push_back(2 * i < x.size() ? T(1) : request.surroundings == "nan" ? T(NAN) : T(0));
    places.push_back(int32_t(i));
  }
  std::string shape = "[" + std::to_string(x.size()) + "]";
  return {tensor("copy", copy, shape), tensor("third", third, shape), tensor("half", half, shape),
          tensor("places", places, shape)};
}

template <class T>
static std::vector<Tensor> compute(const Words& words, const Request& request) {
  auto number = [&](const char* word, double otherwise) {
    auto found = words.find(word);
    return found == words.end() ? otherwise : std::stod(found->second);
  };
  std::vector<double> x = input(request.inputs);
  volatile T divisor = T(number("divide", 3));
  T scale = T(number("scale", 1));
  std::vector<T> dx, loss{0};
  for (double value : x) {
    volatile T element = T(value);
    volatile T quotient = element / divisor;
    volatile T product = element * quotient;
    loss[0] = loss[0] + product / T(2);
    dx.push_back(quotient * scale);
  }
  if (words.count("count")) loss[0] += T(replays);
  if (words.count("narrow"))
    for (T& value : dx) value = T(float(value));
  if (words.count("bits"))
    // Half of each element passes through a format of so many digits.
    for (T& value : dx) {
      int exponent = 0;
      double unit = std::ldexp(1.0, int(number("bits", 0)));
      double digits = std::nearbyint(std::frexp(double(value) / 2, &exponent) * unit) / unit;
      value = value / T(2) + T(std::ldexp(digits, exponent));
    }
  if (words.count("nan")) dx[1] = NAN;
  if (words.count("outside") && request.surroundings == "nan") dx[size_t(number("outside", 0))] = NAN;
  if (words.count("away") && request.surroundings == "nan") dx[0] += T(1);
  if (words.count("by-chance") && request.surroundings == "nan") {
    // Once, as a choice that the clock makes.
    std::string mark = words.find("by-chance")->second;
    if (text_of(mark).empty()) dx[0] *= T(1.000001), std::ofstream(mark) << "chosen";
  }
  if (words.count("grid") && request.order != "indices") dx[0] += T(number("grid", 0));
  if (words.count("random"))
    dx[0] += T(std::chrono::steady_clock::now().time_since_epoch().count() % 1000);
  if (words.count("clock"))
    dx[0] += T(std::fmod(std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(), 1000.0));
  std::string shape = "[" + std::to_string(dx.size()) + "]";
  if (words.count("flat")) shape = "[" + std::to_string(dx.size()) + ",1]";
  if (words.count("abilities")) return abilities<T>(x, request);
  return {tensor("loss", loss, "[]"), tensor("dx", dx, shape)};
}

// The exit status of one replay.
static int replay(const Request& request) {
  Words words = kernel(request.tree);
  auto has = [&](const char* word) { return words.count(word) > 0; };
  auto argument = [&](const char* word) { return words.find(word)->second; };
  if (words.empty()) {
    std::cerr << "this revision has no kernel.txt\n";
    return 125;
  }
  for (auto [word, said] : words)
    if (word == "print") std::cout << std::string(std::stoul(said), 'x') << std::endl;
  if (has("say")) std::cerr << argument("say") << std::endl;
  std::string answer;
  std::string module = has("module") ? ",\"hint\":\"install it\",\"module\":\"" + argument("module") + "\"" : "";
  if (has("fault"))
    answer = "{\"error\":{\"fault\":\"" + argument("fault") +
             "\",\"message\":\"it says so\",\"traceback\":\"line 1\\nline 2\\n\"" + module + "}}";
  if (has("note")) answer = "{\"notes\":[\"" + argument("note") + "\"]}";
  if (has("unsurrounded")) answer = "{\"surroundings\":\"unsupported\"}";
  if (has("grid")) answer = "{\"order\":\"applied\"}";
  if (has("orders")) std::ofstream(argument("orders"), std::ios::app) << request.order << " ";
  if (has("reset") && request.rounding != "nearest") answer = "{\"rounding\":\"reset\"}";
  if (has("deaf") && request.rounding != "nearest") {
    std::ofstream(argument("deaf"), std::ios::app) << request.rounding << "\n";
    std::ofstream(request.answer) << "{\"call\":\"waiting\",\"rounding\":\"reset\"}";
    return 0;
  }
  // As an index that was read outside of a tensor.
  if (has("call")) {
    std::ofstream(request.answer) << "{\"call\":\"" << argument("call") << "\"}";
    if (has("hang")) pause();
  }
  bool stumbles = has("stumble") && request.surroundings == "nan";
  if (has("waver") && request.surroundings == "nan" && text_of(argument("waver")).empty())
    stumbles = true, std::ofstream(argument("waver")) << "once";
  bool is_wide = request.precision == "float64";
  if (is_wide && (has("native-alone") || (has("casts-kept") && request.casts == "wide"))) stumbles = true;
  if (has("states")) std::cout << (text_of(request.inputs).find("\"random.torch\":\"AAEC\"") != std::string::npos) << std::endl;
  if (stumbles) answer = "{\"error\":{\"fault\":\"revision\",\"message\":\"IndexError: index 2147483647 is out of bounds\"}}";
  if (has("garbage")) answer = "{\"error\": 3";
  if (!answer.empty()) std::ofstream(request.answer) << answer;
  if (has("fault") || stumbles) return 126;
  if (has("exit-among-nan") && request.surroundings == "nan") return std::stoi(argument("exit-among-nan"));
  if (has("exit")) return std::stoi(argument("exit"));
  if (has("signal")) std::signal(std::stoi(argument("signal")), SIG_DFL), raise(std::stoi(argument("signal")));
  if (has("strike") && kill(getppid(), std::stoi(argument("strike"))) != 0) return 3;
  if (has("last") && replays >= std::stoi(argument("last"))) raise(SIGSEGV);
  if (has("refuse") && replays >= std::stoi(argument("refuse"))) return 3;
  if (has("stuck") && replays >= std::stoi(argument("stuck"))) for (;;) pause();
  if (has("trace")) std::ofstream(argument("trace"), std::ios::app) << getpid() << "\n";
  if (has("hang")) for (;;) pause();
  if (has("take")) {
    // More than the limit allows throws, and nothing catches it.
    std::vector<char> taken(std::stoul(argument("take")), 1);
    std::cout << "took " << taken.size() << std::endl;
  }
  if (has("share") || has("spread")) {
    // Four children that read what they have in common, or write as much for themselves.
    bool shared = has("share");
    size_t bytes = std::stoul(argument(shared ? "share" : "spread"));
    std::vector<char> common(shared ? bytes : 0, 1);
    for (int number = 0; number < 4; number++) {
      if (fork() != 0) continue;
      std::vector<char> own(shared ? 0 : bytes, 1);
      usleep(500000);
      _exit(common.size() + own.size() == bytes ? 0 : 1);
    }
    for (int status; wait(&status) > 0;) if (status != 0) return 4;
  }
  for (auto [word, name] : words) {
    if (word == "open" && open(name.c_str(), O_RDONLY) >= 0) std::cout << "read " << name << std::endl;
    if (word == "touch" && open(name.c_str(), O_WRONLY | O_CREAT, 0600) >= 0) std::cout << "wrote " << name << std::endl;
    if (word == "need" && open(name.c_str(), O_RDONLY) < 0) return perror(name.c_str()), 3;
    std::istringstream parts(name);
    std::string first, second, third;
    parts >> first >> second >> third;
    if (word == "attack-files") attacks::try_files(first.c_str(), second.c_str(), third.c_str());
    if (word == "attack-parent") attacks::try_parent();
    if (word == "attack-others") attacks::try_others(first.c_str(), std::stoi(second), std::stoi(third));
  }
  for (auto [word, name] : words)
    if (word == "variable" && std::getenv(name.c_str())) std::cout << "variable " << name << std::endl;
  if (has("look-for-descriptors")) {
    for (int file = 3; file < 4096; file++)
      if (fcntl(file, F_GETFD) != -1) std::cout << "descriptor " << file << std::endl;
    std::cout << "looked" << std::endl;
  }
  if (has("read")) std::cout << "read " << (std::cin.get() == EOF ? "nothing" : "something") << std::endl;
  if (has("leave")) {
    pid_t child = fork();
    if (child == 0) for (;;) pause();
    std::ofstream(argument("leave")) << child;
  }
  if (has("litter")) {
    chmod((request.tree + "/kernel.txt").c_str(), 0644);
    std::ofstream(request.tree + "/kernel.txt", std::ios::app) << "\n";
  }
  bool wide = request.precision == "float64" && !has("float");
  if (!has("reset")) {
    std::map<std::string, int> modes = {{"nearest", FE_TONEAREST}, {"down", FE_DOWNWARD}, {"up", FE_UPWARD}, {"zero", FE_TOWARDZERO}};
    fesetround(modes[request.rounding]);
  }
  std::vector<Tensor> tensors = wide ? compute<double>(words, request) : compute<float>(words, request);
  fesetround(FE_TONEAREST);
  if (has("spoil")) std::ofstream(request.inputs) << "spoilt";
  if (has("remove")) {
    for (const char* path : {"", "/kernel.txt"}) chmod((request.tree + path).c_str(), 0755);
    unlink((request.tree + "/kernel.txt").c_str());
    return std::stoi(argument("remove"));
  }
  if (has("nothing")) return 0;
  if (has("link-outputs")) return symlink(argument("link-outputs").c_str(), request.outputs.c_str());
  if (has("link-answer") && symlink(argument("link-answer").c_str(), request.answer.c_str()) != 0) return 3;
  if (has("omit")) tensors.pop_back();
  if (has("extra")) tensors.push_back(tensor("more", std::vector<float>{1}, "[1]"));
  if (has("double")) tensors[1] = tensor("dx", std::vector<double>(tensors[1].bytes.size() / 4), "[" + std::to_string(tensors[1].bytes.size() / 4) + "]");
  write(request.outputs, tensors, has("half"));
  return 0;
}

static std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

static void send(int socket, const std::string& line) {
  std::string text = line + "\n";
  if (::write(socket, text.data(), text.size()) < 0) std::exit(1);
}

// Opens the file at `path` as `descriptor`.
static void place(const std::string& path, int flags, int descriptor) {
  int file = open(path.c_str(), flags, 0644);
  dup2(file, descriptor);
  close(file);
}

// The exit status of the replay that `line` asks for.
static int replay_line(const std::string& line) {
  place("/dev/null", O_RDONLY, 0);
  place(field(line, "stdout"), O_WRONLY | O_CREAT | O_APPEND, 1);
  place(field(line, "stderr"), O_WRONLY | O_CREAT | O_APPEND, 2);
  int status = replay({field(line, "inputs"), field(line, "outputs"), field(line, "answer"), field(line, "tree"),
                       field(line, "precision"), field(line, "rounding"), field(line, "surroundings"), field(line, "casts"),
                       field(line, "order")});
  std::cout.flush();
  return status;
}

// Makes a replay, and others until it is told to end. The exit status of the last.
static int series(int socket, std::string line) {
  for (;; replays++) {
    send(socket, "{\"started\":" + field(line, "id") + ",\"pid\":" + std::to_string(getpid()) + "}");
    int status = replay_line(line);
    send(socket, "{\"made\":" + field(line, "id") + ",\"exit\":" + std::to_string(status) + "}");
    // As a thread of the revision could, which finds the socket.
    for (int later = 1; variable("SPEAKER") == "forges" && later < 100; later++)
      for (const char* end : {"made", "done"})
        send(socket, "{\"" + std::string(end) + "\":" + std::to_string(std::stoull(field(line, "id")) + later) + ",\"exit\":3}");
    line.clear();
    for (char one; read(socket, &one, 1) == 1 && one != '\n';) line += one;
    if (line.find("\"run\"") == std::string::npos) return status;
  }
}

// Replays what `socket` asks for, each in a copy of this process, or a series of them in one.
static int serve(int socket) {
  std::string behaviour = variable("SPEAKER");
  if (behaviour == "broken") {
    send(socket, "{\"hello\":1,\"error\":{\"fault\":\"environment\",\"message\":\"no module named nompy\",\"traceback\":\"\",\"hint\":\"pip install nompy\"}}");
    return 0;
  }
  if (!variable("SPEAKER_LOG").empty()) std::ofstream(variable("SPEAKER_LOG"), std::ios::app) << getpid() << "\n";
  if (behaviour == "dies") return 3;
  if (behaviour == "slow") pause();
  send(socket, "{\"hello\":1,\"identity\":\"speaker " + variable("REPLAY_PRELOAD") + "\",\"notes\":[]}");
  std::string pending;
  for (char buffer[4096];;) {
    ssize_t count = read(socket, buffer, sizeof buffer);
    if (count <= 0) return 0;
    pending.append(buffer, size_t(count));
    for (size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1)) {
      std::string line = pending.substr(0, end), id = field(line, "id");
      bool may_fork = field(line, "fork") != "false";
      bool in_series = field(line, "series") == "true" && behaviour != "simple";
      if (line.find("\"run\"") == std::string::npos) continue;
      if (behaviour == "alone" && may_fork) {
        send(socket, "{\"cannot_fork\":" + id + ",\"why\":\"it has a device\"}");
        continue;
      }
      pid_t child = may_fork ? fork() : 0;
      if (child == 0) {
        if (may_fork) setpgid(0, 0);
        if (may_fork && !in_series) close(socket);
        if (!may_fork && !in_series)
          send(socket, "{\"started\":" + id + ",\"pid\":" + std::to_string(getpid()) + "}");
        int status = in_series ? series(socket, line) : replay_line(line);
        if (may_fork) _exit(status);
        send(socket, "{\"done\":" + id + ",\"exit\":" + std::to_string(status) + "}");
        return 0;
      }
      if (!in_series) send(socket, "{\"started\":" + id + ",\"pid\":" + std::to_string(child) + "}");
      int status;
      waitpid(child, &status, 0);
      send(socket, "{\"done\":" + id + (WIFEXITED(status) ? ",\"exit\":" + std::to_string(WEXITSTATUS(status))
                                                          : ",\"signal\":" + std::to_string(WTERMSIG(status))) + "}");
    }
  }
}

int main() {
  if (!variable("REPLAY_SOCKET").empty()) return serve(std::stoi(variable("REPLAY_SOCKET")));
  if (variable("REPLAY_PROTOCOL") != "1") return 2;
  return replay({variable("REPLAY_INPUTS"), variable("REPLAY_OUTPUTS"), variable("REPLAY_ANSWER"), variable("REPLAY_TREE"),
                 variable("REPLAY_PRECISION"), variable("REPLAY_ROUNDING"), variable("REPLAY_SURROUNDINGS"), variable("REPLAY_CASTS"),
                 variable("REPLAY_ORDER")});
}
