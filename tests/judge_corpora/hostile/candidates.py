"""Candidates that break their process, or what is around it: C++ and Python statements put into a right kernel.

Everything stays within bounds that a small machine survives should the judge fail to stop it: 300 processes, 300 MB of files, 1 GB of
output. What signals everything does so only as the first process of a PID namespace; elsewhere that would be a person's whole session.
Such a process is not hurt by signals that it sends itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from evaluators.candidate import Candidate
from tests.judge.conftest import MODEL, ROW_SUM, native
from tests.judge_corpora.hostile import files

BROKEN = frozenset({"crash", "timeout", "out_of_memory", "load_error", "mismatch", "tampering", "nondeterministic"})
ANY = BROKEN | {"correct"}
HUNG = frozenset({"timeout", "crash"})
RIGHT = frozenset({"correct"})
KILLED = frozenset({"crash", "tampering", "load_error"})
UNREACHED = {"more mapped than its folder holds": KILLED}


@dataclass(frozen=True)
class Hostile:
    """One candidate, and the statuses that are a fair verdict on it: never the judge's own trouble."""

    name: str
    candidate: Candidate
    fair: frozenset[str]


HEADERS = """
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
"""


def _c(statement: str, top: str = "") -> Candidate:
    """The kernel with a statement before its work."""
    return native(HEADERS + top + ROW_SUM.replace("{\n    for", "{\n    " + statement + "\n    for", 1))


def _forward(statement: str, top: str = "") -> Candidate:
    """The module with a statement in each call, after its work."""
    lines = "\n".join("        " + line for line in statement.strip().splitlines())
    return native(body=_top(top).replace("        return y", f"{lines}\n        return y"))


def _import(statement: str) -> Candidate:
    """The module with a statement at its import."""
    return native(body=_top(statement))


def _top(text: str) -> str:
    return MODEL.replace("import torch\n", f"import torch\n\nos, sys = torch.os, torch.sys\n{text}\n", 1)


_SPIN = "for (volatile int i = 0;; i = i + 1);"
_C = {
    "segmentation fault": ("*(volatile int*)8 = 1;", KILLED),
    "abort": ("abort();", KILLED),
    "abort with core dumps asked for": ("rlimit r = {RLIM_INFINITY, RLIM_INFINITY}; setrlimit(RLIMIT_CORE, &r); abort();", KILLED),
    "illegal instruction": ("__builtin_trap();", KILLED),
    "division by zero": ("kill(getpid(), SIGFPE); volatile int zero = 0; rows = 7 / zero;", KILLED),
    "exit 0": ("_exit(0);", KILLED),
    "exit 1": ("_exit(1);", KILLED),
    "exit 255": ("_exit(255);", KILLED),
    "exit with handlers": ("exit(3);", KILLED),
    "endless loop": (_SPIN, HUNG),
    "endless sleep": ("for (;;) pause();", HUNG),
    "stops itself": ("raise(SIGSTOP);", ANY),
    "kills itself": ("raise(SIGKILL);", ANY),
    "terminates itself": ("raise(SIGTERM);", ANY),
    "ignores every signal and hangs": ("for (int s = 1; s < 65; ++s) signal(s, SIG_IGN); for (;;) pause();", HUNG),
    "signals its parent": ("kill(getppid(), SIGKILL); kill(getppid(), SIGTERM);", ANY),
    "stops its parent": ("kill(getppid(), SIGSTOP);", ANY),
    "signals its group": ("kill(0, SIGKILL);", ANY),
    "signals everything": ("if (getpid() == 1) kill(-1, SIGKILL);", ANY),
    "stops everything": ("if (getpid() == 1) kill(-1, SIGSTOP);", ANY),
    "signals the first 400 processes": ("for (int p = 2; p < 400 && getpid() == 1; ++p) kill(p, SIGKILL);", ANY),
    "an alarm": ("alarm(1); for (;;) pause();", BROKEN),
    "a storm of timers": ("itimerval t = {{0, 50}, {0, 50}}; signal(SIGALRM, SIG_IGN); setitimer(ITIMER_REAL, &t, nullptr);", ANY),
    "stack overflow": ("deep(1);", KILLED),
    "its stack unmapped": ("munmap((void*)((size_t)&rows & ~4095ul), 4096);", KILLED),
    "its code unmapped": ("munmap((void*)((size_t)&abort & ~4095ul), 1 << 20); abort();", BROKEN),
    "a shrunk mapping": ("shrunk();", KILLED),
    "50 GB at once": ("volatile char* p = (char*)malloc(50ull << 30); p[1 << 30] = 1;", BROKEN),
    "memory until there is none": ("for (;;) fill(1 << 20);", BROKEN),
    "memory in children": ("feed(8);", BROKEN),
    "300 children": ("for (int i = 0; i < 300; ++i) if (!fork()) for (;;) pause();\n    sleep(9);", BROKEN),
    "children of children": ("for (int i = 0; i < 8; ++i) fork();\n    sleep(9);", BROKEN),
    "200 zombies": ("for (int i = 0; i < 200; ++i) if (!fork()) _exit(0);", ANY),
    "300 threads": ("for (int i = 0; i < 300; ++i) { pthread_t t; pthread_create(&t, 0, idle, 0); }", ANY),
    "threads that spin": ("for (int i = 0; i < 4; ++i) { pthread_t t; pthread_create(&t, 0, spin, 0); }", ANY),
    "a thread that crashes": ("pthread_t t; pthread_create(&t, 0, crash, 0); sleep(1);", KILLED),
    "its first thread ends": ("pthread_exit(nullptr);", BROKEN),
    "a daemon": ("if (!fork()) { setsid(); if (!fork()) sleep(1000); _exit(0); }", ANY),
    "a daemon that holds every descriptor": ("hold(); _exit(0);", KILLED),
    "vfork and wait": ("if (!vfork()) { setsid(); sleep(60); _exit(0); }", HUNG),
    "traced by its parent": ("ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGTRAP);", BROKEN),
    "attaches to its parent": ("if (!ptrace(PTRACE_ATTACH, getppid(), 0, 0)) sleep(9);", ANY),
    "traced by its child": ("be_traced();", ANY),
    "another program": ('execl("/bin/sleep", "sleep", "60", (char*)nullptr);', BROKEN),
    "another program that ends": ('execl("/bin/true", "true", (char*)nullptr);', BROKEN),
    "1 GB of output": ("pour(1, 1 << 14);", ANY),
    "all descriptors closed": ("for (int f = 0; f < 1024; ++f) close(f);", BROKEN),
    "descriptors turned to nothing": ("nothing();", BROKEN),
    "descriptors exhausted": ('while (open("/dev/null", O_RDONLY) >= 0);', ANY),
    "no processor time left": ("rlimit r = {0, 0}; setrlimit(RLIMIT_CPU, &r); " + _SPIN, BROKEN),
    "no descriptors allowed": ("rlimit r = {0, 0}; setrlimit(RLIMIT_NOFILE, &r);", ANY),
    "no address space allowed": ("rlimit r = {0, 0}; setrlimit(RLIMIT_AS, &r); fill(1 << 26);", ANY),
    "not dumpable": ("prctl(PR_SET_DUMPABLE, 0);", ANY),
    "lowest priority": ("setpriority(PRIO_PROCESS, 0, 19); sched_param p = {0}; sched_setscheduler(0, SCHED_IDLE, &p);", ANY),
    "shared memory of System V": ("int s = shmget(IPC_PRIVATE, 1 << 20, IPC_CREAT | 0600); shmat(s, 0, 0);", ANY),
    "300 MB in its folder": ("pour(open(\"big\", O_WRONLY | O_CREAT, 0600), 4800);", ANY),
    "directories 3000 deep": ('for (int i = 0; i < 3000; ++i) { mkdir("d", 0700); (void)!chdir("d"); }', ANY),
    "a folder that nobody may enter": ("shut();", ANY),
    "20000 files": ("many(20000);", ANY),
    "a pipe that nobody writes": ('mkfifo("p", 0600); open("p", O_RDONLY);', HUNG),
    "a listening socket by name": ("attend();", ANY),
    "its memory locked": ("mlockall(MCL_CURRENT | MCL_FUTURE);", ANY),
}  # fmt: skip
_TOP = """
static int deep(volatile int n) { volatile char room[4096]; room[0] = (char)n; return deep(n + 1) + room[0]; }
static void* idle(void*) { for (;;) pause(); }
static void* spin(void*) { for (volatile int i = 0;; i = i + 1); }
static void* crash(void*) { *(volatile int*)8 = 1; return nullptr; }
static void fill(int bytes) {
  volatile char* place = (char*)malloc(bytes);
  for (int i = 0; i < bytes; i += 512) place[i] = 1;
}
static void shrunk() {
  int f = open("m", O_RDWR | O_CREAT, 0600);
  (void)!ftruncate(f, 4096);
  volatile char* p = (char*)mmap(0, 4096, PROT_READ, MAP_SHARED, f, 0);
  (void)!ftruncate(f, 0);
  (void)*p;
}
static void feed(int children) {
  for (int i = 0; i < children; ++i)
    if (!fork()) {
      for (int k = 0; k < 400; ++k) fill(1 << 20);
      sleep(9);
      _exit(0);
    }
  sleep(9);
}
static void hold() {
  if (fork()) return;
  setsid();
  signal(SIGTERM, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, 0);
  if (!fork()) for (;;) pause();
  _exit(0);
}
static void be_traced() {
  pid_t me = getpid();
  prctl(PR_SET_PTRACER, -1);
  if (!fork()) {
    ptrace(PTRACE_ATTACH, me, 0, 0);
    sleep(60);
    _exit(0);
  }
  sleep(1);
}
static void pour(int file, int blocks) {
  static char block[1 << 16];
  memset(block, 46, sizeof block);
  for (int i = 0; i < blocks; ++i) (void)!write(file, block, sizeof block);
}

static void nothing() {
  int n = open("/dev/null", O_RDWR);
  for (int f = 0; f < 64; ++f)
    if (f != n) dup2(n, f);
}
static void shut() {
  mkdir("closed", 0700);
  mkdir("closed/in", 0700);
  chmod("closed/in", 0);
  chmod("closed", 0);
  chmod(".", 0);
}
static void many(int files) {
  char name[32];
  for (int i = 0; i < files; ++i) {
    snprintf(name, sizeof name, "f%d", i);
    close(open(name, O_CREAT | O_WRONLY, 0600));
  }
}
static void attend() {
  sockaddr_un a = {AF_UNIX, "s"};
  int s = socket(AF_UNIX, SOCK_STREAM, 0);
  bind(s, (sockaddr*)&a, sizeof a);
  listen(s, 9);
}
"""
_FD = """
def sockets():
    for fd in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + fd).startswith("socket:"):
                yield int(fd)
        except OSError:
            pass


def tell(text):
    for fd in sockets():
        os.write(fd, text)


def give(descriptors):
    socket = sys.modules["socket"]
    for fd in sockets():
        socket.send_fds(socket.socket(fileno=os.dup(fd)), [b"x"], descriptors)


def shut():
    socket = sys.modules["socket"]
    for fd in sockets():
        socket.socket(fileno=os.dup(fd)).shutdown(2)
"""
_P = {
    "its folder deleted": ('torch.sys.modules["shutil"].rmtree(os.getcwd())', "", ANY),
    "its folder deleted and left": ('torch.sys.modules["shutil"].rmtree(os.getcwd())\nos.chdir("/")\nos.environ.clear()', "", ANY),
    "its modules deleted": ('for name in list(sys.modules):\n    del sys.modules[name]', "", ANY),
    "leaves the interpreter": ("raise SystemExit(0)", "", KILLED),
    "interrupts": ("raise KeyboardInterrupt", "", KILLED),
    "raises what is no Exception": ('raise type("Odd", (BaseException,), {})("odd")', "", KILLED),
    "an exception that cannot be shown": ("raise Mute", "class Mute(Exception):\n    def __str__(self):\n        raise self", KILLED),
    "100 MB of exception": ('raise ValueError("x" * 100_000_000)', "", KILLED),
    "recursion without a limit": ("down(1)", "sys.setrecursionlimit(10**8)\n\n\ndef down(n):\n    return down(n + 1)", BROKEN),
    "garbage on its channel": ("tell(b'garbage')", _FD, BROKEN),
    "a message of 4 GB announced": ("tell(b'\\xff\\xff\\xff\\xff')", _FD, BROKEN),
    "half a message": ("tell(b'\\x00\\x01\\x00\\x00{')\ntorch.sys.modules['time'].sleep(60)", _FD, BROKEN),
    "a flood of messages": ("while True:\n    tell(b'\\x02\\x00\\x00\\x00{}' * 1000)", _FD, BROKEN),
    "descriptors in a message": ("give([0, 1, 2])", _FD, BROKEN),
    "its end of the channel shut": ("shut()", _FD, BROKEN),
    "a result nested 10000 deep": ("for _ in range(10000):\n    y = [y]", "", BROKEN | {"wrong_shape", "wrong_dtype"}),
    "a million results": ("y = [y] * 1_000_000", "", BROKEN | {"wrong_shape", "wrong_dtype"}),
    "a connection": (
        "s = sys.modules['socket'].socket()\ns.settimeout(1)\nassert s.connect_ex(('127.0.0.1', 9)) != 0", "", ANY,
    ),
    "collector and signals rewired": ("sys.modules['gc'].disable()\nsys.setswitchinterval(1000)", "", ANY),
}  # fmt: skip
_I = {
    "exits when imported": ("os._exit(0)", KILLED),
    "hangs when imported": ("while True:\n    torch.sys.modules['time'].sleep(1)", HUNG),
    "leaves when imported": ("raise SystemExit(3)", KILLED),
    "crashes when imported": ("os.abort()", KILLED),
    "stops itself when imported": ("os.kill(os.getpid(), 19)", ANY),
}


def candidates() -> list[Hostile]:
    """All of them, in a fixed order."""
    found = [Hostile(name, _c(text, _TOP), fair) for name, (text, fair) in _C.items()]
    found += [Hostile(name, _forward(text, top), fair) for name, (text, top, fair) in _P.items()]
    found += [Hostile(name, _import(text), fair) for name, (text, fair) in _I.items()]
    found += [Hostile(name, _c(text, files.TOP), UNREACHED.get(name, RIGHT)) for name, text in files.C.items()]
    found += [Hostile(name, _import(text), RIGHT) for name, text in files.IMPORT.items()]
    unread = frozenset({"compile_error"})
    return found + [
        Hostile(name, _c("", files.PASTED.replace("FILE", file)), unread) for name, file in files.READ.items()
    ]


def right() -> Candidate:
    """A right kernel."""
    return native()
