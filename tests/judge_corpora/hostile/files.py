"""Attacks on files: each aborts where it gets at something, so that a right verdict says that it got at nothing.

None does harm should it get through: what is written is an empty file named :data:`~tests.judge_corpora.hostile.leaks.MARK`, what is
deleted is :data:`~tests.judge_corpora.hostile.leaks.BAIT`, modes are set to what they are, and devices are only opened.
"""

from __future__ import annotations

C = {
    "a file beside its folder": 'reached(put("../hostile-trace"));',
    "files in the folders for temporary files":
        'for (auto p : {"/tmp", "/var/tmp", "/dev/shm", "/run", "/"}) reached(!chdir(p) && put("hostile-trace"));',
    "what lies beside its folder deleted": 'reached(!unlink("../hostile-bait")); reached(!rename("../hostile-bait", "bait"));',
    "what lies beside its folder listed": 'reached(opendir("..") || opendir("/tmp") || opendir("/root") || opendir("/home"));',
    "the judge's data listed": 'reached(opendir("../../home") || opendir("../../home/cache/native"));',
    "a link to outside": 'symlink("..", "out"); reached(put("out/hostile-trace") || opendir("out"));',
    "a hard link to outside": 'reached(!link("../hostile-bait", "h") || !link("/proc/self/exe", "i") || !link("/usr/bin/env", "e"));',
    "a file moved outside": 'put("m"); reached(!rename("m", "../hostile-trace")); reached(!link("m", "../hostile-trace"));',
    "remounts": 'reached(free_child([] { return !mount("", "/", 0, MS_REMOUNT, 0) || !mount("", "/tmp", 0, MS_REMOUNT | MS_BIND, 0); }));',
    "remounts after all": 'reached(free_child([] { mount("", "/", 0, MS_REMOUNT | MS_BIND, 0); return put("/tmp/hostile-trace"); }));',
    "a bind mount": 'mkdir("b", 0700); reached(free_child([] { return !mount("/", "b", 0, MS_BIND | MS_REC, 0); }));',
    "file systems of its own":
        'mkdir("t", 0700); for (auto k : {"tmpfs", "proc"}) reached(free_child([k] { return !mount(k, "t", k, 0, 0); }));',
    "unmounts what hides": 'for (auto p : {".", "/proc", "/"}) reached(free_child([p] { return !umount2(p, MNT_DETACH); }));',
    "another root": 'mkdir("r", 0700); reached(free_child([] { return !syscall(SYS_pivot_root, ".", "r"); }));',
    "a disk that fills": 'unlink("big"); reached(pour(open("big", O_WRONLY | O_CREAT, 0600), 8192) > 6000);',
    "a disk that fills with many files": "reached(heap() > 6000);",
    "a file of a terabyte": 'reached(!truncate64("huge", 1ll << 40) || !ftruncate(open("huge", O_RDWR | O_CREAT, 0600), 1ll << 40));',
    "a file reserved at once": 'reached(!posix_fallocate(open("reserved", O_RDWR | O_CREAT, 0600), 0, 1ll << 31));',
    "more mapped than its folder holds": "stretch();",
    "the kernel's settings":
        'for (auto p : {"/proc/sys/kernel/core_pattern", "/sys/kernel/mm/transparent_hugepage/enabled"}) reached(can_write(p));',
    "disks and memory as devices":
        'for (auto d : {"/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/mem", "/dev/kmsg", "/dev/fuse"}) reached(open(d, O_RDONLY) >= 0);',
    "a device of its own making": 'reached(!mknod("d", S_IFBLK | 0600, makedev(254, 0)) || !mknod("c", S_IFCHR | 0600, makedev(1, 1)));',
    "modes of the system's files": 'reached(same_mode("/usr") || same_mode("/tmp") || same_mode("/proc/self/exe"));',
    "other processes' environments": "for (int p = 2; p < 600; ++p) reached(seen(p));",
    "a password file": 'reached(open("/etc/shadow", O_RDONLY) >= 0);',
}  # fmt: skip
TOP = """
#include <string>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
static void reached(bool it) { if (it) abort(); }
static bool put(const char* name) {
  int f = open(name, O_CREAT | O_WRONLY, 0600);
  if (f >= 0) close(f);
  return f >= 0;
}
static bool can_write(const char* name) { return open(name, O_WRONLY) >= 0; }
static bool same_mode(const char* name) {
  struct stat s;
  return !stat(name, &s) && !chmod(name, s.st_mode & 07777);
}
static bool seen(int process) {
  char byte;
  const std::string name = std::to_string(process);
  int f = open(("/proc/" + name + "/environ").c_str(), O_RDONLY);
  const bool own = !access(("/proc/self/task/" + name).c_str(), F_OK);
  return f >= 0 && read(f, &byte, 1) == 1 && !own;
}
static int pour(int file, int blocks) {
  static char block[1 << 16];
  int done = 0;
  while (done < blocks && write(file, block, sizeof block) == sizeof block) ++done;
  return done;
}
static int heap() {
  int done = 0;
  for (int i = 0; i < 64; ++i) {
    int f = open(("heap" + std::to_string(i)).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    done += pour(f, 128);
    close(f);
  }
  return done;
}
static void stretch() {
  int f = open("stretched", O_RDWR | O_CREAT, 0600);
  const long size = 200l << 20;
  for (int i = 0; i < 2; ++i) {
    if (ftruncate(f, size)) return;
    char* p = (char*)mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    for (long k = 0; k < size; k += 4096) p[k] = 1;
    f = open("stretched too", O_RDWR | O_CREAT, 0600);
  }
}
template <class Attack> static bool free_child(Attack attack) {
  pid_t child = fork();
  if (!child) {
    unshare(CLONE_NEWUSER | CLONE_NEWNS);
    _exit(attack() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}
"""
_REACH = """
Path = torch.sys.modules["pathlib"].Path
judge = Path(torch.sys.modules["evaluators.judge.worker.worker"].__file__).parent


def reached(attack):
    try:
        attack()
    except OSError:
        return
    torch.os.abort()
"""
IMPORT = {
    "a file beside its folder when imported": _REACH + 'reached(lambda: Path("../hostile-trace").touch())',
    "the judge's text written": _REACH + '''
reached(lambda: (judge / "hostile-trace").touch())
reached(lambda: (judge / "judge.py").open("r+b"))
''',
    "the judge's text read": _REACH + '''
reached(lambda: (judge / "judge.py").read_text())
reached(lambda: list(judge.iterdir()))
''',
    "the judge's text moved": _REACH + 'reached(lambda: (judge / "judge.py").rename(judge / "judge.py"))',
    "caches beside its library": _REACH + '''
beside = Path(torch.os.environ["KERNELEVOLVE_NATIVE"]).parent.parent
reached(lambda: (beside / "baselines").mkdir())
reached(lambda: list(beside.iterdir()))
''',
}  # fmt: skip
PASTED = """
#define TEXT(a) #a
#define PASTED(a, b) TEXT(a##b)
asm(".data\\nheld:\\n." PASTED(inc, bin) " \\"FILE\\"\\n.text\\n");
"""
"""The assembler's directive that reads a file into the library, out of the review's sight."""
READ = {
    "its library made of a password file": "/etc/passwd",
    "its library made of the compiler's environment": "/proc/self/environ",
    "its library made of other sources": "../../../../temporary/hostile-bait",
}
