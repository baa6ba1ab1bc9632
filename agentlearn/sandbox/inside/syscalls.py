"""Numbers of the system calls that the filter allows, per machine, from the kernel's headers.

A call that a machine lacks is not in its table: aarch64 has no `open`, only `openat`.
"""


def _table(text: str) -> dict[str, int]:
    return {name: int(number) for name, number in (entry.split("=") for entry in text.split())}


X86_64 = _table("""
read=0 write=1 readv=19 writev=20 pread64=17 pwrite64=18 preadv=295 pwritev=296 lseek=8 close=3 close_range=436
open=2 openat=257 creat=85 stat=4 lstat=6 fstat=5 newfstatat=262 statx=332 access=21 faccessat=269 faccessat2=439
readlink=89 readlinkat=267 getdents=78 getdents64=217 getcwd=79 chdir=80 fchdir=81 mkdir=83 mkdirat=258 rmdir=84
unlink=87 unlinkat=263 rename=82 renameat=264 renameat2=316 ftruncate=77 fadvise64=221 fsync=74
fdatasync=75 flock=73 fstatfs=138 statfs=137 sendfile=40 copy_file_range=326 dup=32 dup2=33 dup3=292 pipe=22
pipe2=293 poll=7 ppoll=271 select=23 pselect6=270 umask=95 brk=12 mmap=9 munmap=11 mremap=25 mprotect=10 madvise=28
msync=26 membarrier=324 rt_sigaction=13 rt_sigprocmask=14 rt_sigreturn=15 rt_sigpending=127 rt_sigsuspend=130
rt_sigtimedwait=128 sigaltstack=131 restart_syscall=219 pause=34 alarm=37 getitimer=36 setitimer=38 futex=202
set_tid_address=218 set_robust_list=273 get_robust_list=274 rseq=334 sched_yield=24 sched_getaffinity=204 getcpu=309
nanosleep=35 clock_nanosleep=230 clock_gettime=228 clock_getres=229 gettimeofday=96 time=201 times=100 getrusage=98
getrlimit=97 sysinfo=99 uname=63 getrandom=318 getpid=39 gettid=186 getppid=110 getuid=102 geteuid=107 getgid=104
getegid=108 getresuid=118 getresgid=120 getgroups=115 getpgrp=111 getpgid=121 getsid=124 capget=125 exit=60
exit_group=231 wait4=61 waitid=247 kill=62 tkill=200 tgkill=234 prlimit64=302 fcntl=72 ioctl=16 clone=56
epoll_create1=291 epoll_ctl=233 epoll_wait=232 epoll_pwait=281 socketpair=53 sendto=44 recvfrom=45 getsockname=51
getsockopt=55
""")

AARCH64 = _table("""
read=63 write=64 readv=65 writev=66 pread64=67 pwrite64=68 preadv=69 pwritev=70 lseek=62 close=57 close_range=436
openat=56 fstat=80 statx=291 faccessat=48 faccessat2=439 readlinkat=78 getdents64=61 getcwd=17 chdir=49 fchdir=50
mkdirat=34 unlinkat=35 renameat=38 renameat2=276 ftruncate=46 fadvise64=223 fsync=82 fdatasync=83
flock=32 fstatfs=44 statfs=43 sendfile=71 copy_file_range=285 dup=23 dup3=24 pipe2=59 ppoll=73 pselect6=72 umask=166
brk=214 mmap=222 munmap=215 mremap=216 mprotect=226 madvise=233 msync=227 membarrier=283 rt_sigaction=134
rt_sigprocmask=135 rt_sigreturn=139 rt_sigpending=136 rt_sigsuspend=133 rt_sigtimedwait=137 sigaltstack=132
restart_syscall=128 getitimer=102 setitimer=103 futex=98 set_tid_address=96 set_robust_list=99 get_robust_list=100
rseq=293 sched_yield=124 sched_getaffinity=123 getcpu=168 nanosleep=101 clock_nanosleep=115 clock_gettime=113
clock_getres=114 gettimeofday=169 times=153 getrusage=165 getrlimit=163 sysinfo=179 uname=160 getrandom=278
getpid=172 gettid=178 getppid=173 getuid=174 geteuid=175 getgid=176 getegid=177 getresuid=148 getresgid=150
getgroups=158 getpgid=155 getsid=156 capget=90 exit=93 exit_group=94 wait4=260 waitid=95 kill=129 tkill=130
tgkill=131 prlimit64=261 fcntl=25 ioctl=29 newfstatat=79 clone=220 epoll_create1=20 epoll_ctl=21 epoll_pwait=22
socketpair=199 sendto=206 recvfrom=207 getsockname=204 getsockopt=209
""")

CLONE3 = 435
"""The same on every machine; its arguments lie in memory, which the filter cannot see."""
SECCOMP = {"x86_64": 317, "aarch64": 277}
CAPSET = {"x86_64": 126, "aarch64": 91}
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
"""Landlock's call numbers are the same on every machine."""
