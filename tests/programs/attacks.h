// Ways out of a sandbox, for replayed code of tests. Each says so where it succeeds, and none does harm.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace attacks {

inline void say(bool succeeded, const char* what, const char* name = "") {
  if (succeeded) printf("%s %s\n", what, name), fflush(stdout);
}

inline bool opens(const char* name, int flags) {
  int file = open(name, flags | O_CLOEXEC, 0600);
  if (file >= 0) close(file);
  return file >= 0;
}

// What `attempt` returns in a process of its own, in a session of its own and below another that has gone.
template <class Attempt>
bool from_afar(Attempt attempt) {
  int both[2];
  if (pipe(both) != 0) return false;
  if (fork() == 0) {
    setsid();
    if (fork() == 0) {
      char answer = attempt();
      if (write(both[1], &answer, 1) != 1) _exit(1);
    }
    _exit(0);
  }
  close(both[1]);
  char answer = 0;
  bool answered = read(both[0], &answer, 1) == 1;
  close(both[0]);
  for (int status; wait(&status) > 0;) {}
  return answered && answer;
}

inline void try_files(const char* home, const char* root, const char* cache) {
  char name[4096], other[4096];
  auto at = [&](const char* folder, const char* rest) {
    snprintf(name, sizeof name, "%s/%s", folder, rest);
    return name;
  };
  for (const char* secret : {".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".docker/config.json",
                             ".kube/config", ".gnupg/key", ".git-credentials", ".bash_history", ".bashrc"})
    say(opens(at(home, secret), O_RDONLY), "read", secret);
  for (const char* file : {".bashrc", "new", ".cache/new", ".local/lib/new.pth"})
    say(opens(at(home, file), O_WRONLY | O_CREAT), "wrote", file);
  for (const char* file : {"replay.toml", ".git/config", ".git/hooks/post-checkout", "k.cu", "fixtures/tiny/inputs.safetensors",
                           "fixtures/tiny/new"})
    say(opens(at(root, file), O_WRONLY | O_CREAT), "wrote", file);
  for (const char* file : {"outcomes/new", "artifacts/new", "trees/new"})
    say(opens(at(cache, file), O_WRONLY | O_CREAT), "wrote", file);
  say(opens("/proc/self/exe", O_WRONLY), "wrote", "the program");
  for (const char* file : {"/dev/tty", "/dev/console", "/dev/mem"}) say(opens(file, O_RDWR), "opened", file);
  snprintf(other, sizeof other, "%s/.bashrc", home);
  say(rename(other, at(root, "gone")) == 0, "moved");
  say(symlink(at(home, ".ssh"), at(root, "link")) == 0, "linked");
  say(mkfifo(at(root, "fifo"), 0600) == 0, "made a pipe");
  at(home, ".ssh/id_ed25519");
  say(link(name, "link") == 0, "linked hard");
  struct stat harness = {};
  say(stat(at(root, "replay.toml"), &harness) == 0 && truncate(name, harness.st_size) == 0, "truncated");
  say(chdir(home) == 0 && opens(".ssh/id_ed25519", O_RDONLY), "read below");
  say(chdir(root) == 0 && opens("../home/.ssh/id_ed25519", O_RDONLY), "read beside");
}

// Modes, owners, times and attributes of `secret`, each set to what it is.
inline void try_states(const char* secret) {
  struct stat state = {};
  stat(secret, &state);
  say(chmod(secret, state.st_mode & 07777) == 0, "changed a mode");
  say(chown(secret, state.st_uid, state.st_gid) == 0, "changed an owner");
  timespec times[2] = {state.st_atim, state.st_mtim};
  say(utimensat(AT_FDCWD, secret, times, 0) == 0, "changed times");
  say(syscall(SYS_setxattr, secret, "user.replay", "", 0, 0) == 0, "changed an attribute");
}

// Whoever watches over the code.
inline void try_parent() {
  char name[64];
  for (const char* file : {"mem", "environ", "fd/1", "maps"}) {
    snprintf(name, sizeof name, "/proc/%d/%s", getppid(), file);
    say(opens(name, O_RDONLY), "read its parent's", file);
  }
  snprintf(name, sizeof name, "/proc/%d/oom_score_adj", getppid());
  say(opens(name, O_WRONLY), "wrote its parent's", "oom_score_adj");
  say(kill(getppid(), 0) == 0, "signalled its parent");
  say(kill(-getpgid(getppid()), 0) == 0, "signalled its parent's group");
  say(setpriority(PRIO_PROCESS, id_t(getppid()), 19) == 0, "slowed its parent");
}

// Runs cat on `file` from memory.
inline bool reads_from_memory(const char* file) {
  int program = int(syscall(SYS_memfd_create, "cat", 0)), cat = open("/bin/cat", O_RDONLY);
  char part[1 << 16];
  for (ssize_t count; (count = read(cat, part, sizeof part)) > 0;)
    if (write(program, part, size_t(count)) != count) return false;
  int nothing = open("/dev/null", O_WRONLY);
  if (fork() == 0) {
    dup2(nothing, 1), dup2(nothing, 2);
    char self[32];
    snprintf(self, sizeof self, "/proc/self/fd/%d", program);
    execl(self, "cat", file, nullptr);
    _exit(1);
  }
  int status = 1;
  wait(&status);
  return status == 0;
}

#ifdef __x86_64__
// The system's old entry, whose calls have other numbers: kill is 37.
inline bool kills_by_old_entry(int process) {
  return from_afar([=] {
    int result = 37;
    asm volatile("int $0x80" : "+a"(result) : "b"(process), "c"(0) : "memory");
    return result == 0;
  });
}
#endif

// What one process changes of another, or of all of a user, without a signal.
inline void try_limits_and_priorities(int victim) {
  rlimit same;
  getrlimit(RLIMIT_NOFILE, &same);
  say(prlimit(pid_t(victim), RLIMIT_NOFILE, &same, nullptr) == 0, "limited another");
  say(prlimit(getppid(), RLIMIT_NOFILE, &same, nullptr) == 0, "limited its parent");
  say(setpriority(PRIO_PROCESS, id_t(victim), 1) == 0, "slowed another");
  say(from_afar([] { return setpriority(PRIO_USER, 0, getpriority(PRIO_PROCESS, 0)) == 0; }), "slowed its user");
  say(syscall(SYS_ioprio_set, 1 /* IOPRIO_WHO_PROCESS */, victim, 3 << 13 /* idle */) == 0, "delayed another");
}

// Another process's files by its own, and one's own by other names.
inline void try_paths_of_processes(int victim, const char* secret) {
  char name[4096];
  for (const char* way : {"root", "cwd"}) {
    snprintf(name, sizeof name, "/proc/%d/%s/etc/hostname", victim, way);
    say(opens(name, O_RDONLY), "read through another's", way);
  }
  for (const char* way : {"/proc/self/root", "/proc/thread-self/root", "/proc/self/cwd/../../../../../../../../.."}) {
    snprintf(name, sizeof name, "%s%s", way, secret);
    say(opens(name, O_RDONLY), "read through", way);
  }
  // A descriptor without a right to read, opened again.
  int held = open(secret, O_PATH);
  snprintf(name, sizeof name, "/proc/self/fd/%d", held);
  say(held >= 0 && opens(name, O_RDONLY), "opened again");
  if (held >= 0) close(held);
  // A group that others are in, signalled as one's own.
  say(from_afar([=] { return setpgid(0, getpgid(victim)) == 0 && kill(0, 0) == 0 && kill(victim, 0) == 0; }),
      "signalled a group that it joined");
}

inline void try_others(const char* secret, int victim, int port) {
  say(reads_from_memory(secret), "read by a program in memory");
  say(kill(victim, 0) == 0, "signalled");
  say(from_afar([=] { return kill(victim, 0) == 0; }), "signalled from afar");
  say(from_afar([=] { return opens(secret, O_RDONLY); }), "read from afar");
  say(syscall(SYS_tkill, victim, 0) == 0, "signalled a thread");
#ifdef __x86_64__
  say(kills_by_old_entry(victim), "signalled by an old entry");
  say(syscall(0x40000000 | SYS_kill, victim, 0) == 0, "signalled by another number");
#endif
  int pair[2] = {-1, -1};
  say(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0, "lacks pairs of sockets");
  say(fcntl(pair[0], F_SETOWN, victim) == 0, "owns by F_SETOWN");
  say(ioctl(pair[0], 0x8901 /* FIOSETOWN */, &victim) == 0, "owns by FIOSETOWN");
  int tracing = int(syscall(SYS_pidfd_open, victim, 0));
  say(syscall(SYS_pidfd_send_signal, tracing, 0, nullptr, 0) == 0, "signalled by descriptor");
  say(syscall(SYS_pidfd_getfd, tracing, 0, 0) >= 0, "took a descriptor");
  say(ptrace(PTRACE_ATTACH, victim, 0, 0) == 0, "traced");
  char byte;
  iovec here = {&byte, 1}, there = {const_cast<char*>(secret), 1};
  say(process_vm_readv(victim, &here, 1, &there, 1, 0) == 1, "read memory");
  say(syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY) >= 0, "userfaultfd");
  char setting[128] = {};
  say(syscall(SYS_io_uring_setup, 1, setting) >= 0, "io_uring");
  say(syscall(SYS_add_key, "user", "replay", "x", 1, -3) >= 0, "key");
  say(from_afar([] {
        bool apart = unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 || unshare(CLONE_NEWNS) == 0;
        return apart && mount("none", "/proc", "tmpfs", 0, nullptr) == 0;
      }),
      "mounted");
  rlimit core = {1 << 20, 1 << 20};
  say(setrlimit(RLIMIT_CORE, &core) == 0, "dumps core");

  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(uint16_t(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  try_limits_and_priorities(victim);
  char handle_space[sizeof(file_handle) + MAX_HANDLE_SZ] = {};
  file_handle* handle = reinterpret_cast<file_handle*>(handle_space);
  handle->handle_bytes = MAX_HANDLE_SZ;
  int mount = 0, folder = open("/", O_RDONLY);
  bool named = name_to_handle_at(AT_FDCWD, secret, handle, &mount, 0) == 0;
  say(named && open_by_handle_at(folder, handle, O_RDONLY) >= 0, "opened by handle");
  say(syscall(SYS_fanotify_init, 0x200 /* FAN_REPORT_FID */, 0) >= 0, "watches all files");
  say(syscall(SYS_syslog, 10 /* SYSLOG_ACTION_SIZE_BUFFER */, nullptr, 0) >= 0, "read the system's messages");
  char attributes[128] = {};
  attributes[0] = 1 /* PERF_TYPE_SOFTWARE */, attributes[4] = char(sizeof attributes);
  say(syscall(SYS_perf_event_open, attributes, victim, -1, -1, 0) >= 0, "measures another");
  say(syscall(SYS_bpf, 0 /* BPF_MAP_CREATE */, attributes, sizeof attributes) >= 0 || errno != EPERM, "bpf");
  try_paths_of_processes(victim, secret);
  int stream = socket(AF_INET, SOCK_STREAM, 0);
  say(connect(stream, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "connected");
  int datagrams = socket(AF_INET, SOCK_DGRAM, 0);
  say(sendto(datagrams, "x", 1, 0, reinterpret_cast<sockaddr*>(&address), sizeof address) == 1, "sent by UDP");
  sockaddr_un hidden = {AF_UNIX, "\0replay-stranger"};
  int local = socket(AF_UNIX, SOCK_STREAM, 0);
  say(bind(local, reinterpret_cast<sockaddr*>(&hidden), sizeof hidden) == 0, "bound a name");
  int memory = shmget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
  say(memory >= 0 && shmctl(memory, IPC_RMID, nullptr) == 0, "left memory");
  int semaphores = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
  say(semaphores >= 0 && semctl(semaphores, 0, IPC_RMID) == 0, "left semaphores");
  int queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
  say(queue >= 0 && msgctl(queue, IPC_RMID, nullptr) == 0, "left a queue");
  for (int file : {stream, datagrams, local, pair[0], pair[1], tracing}) close(file);
}

}  // namespace attacks
