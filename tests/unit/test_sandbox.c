/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Operations that the kernel permits to a process in the sandbox. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/log.h"
#include "util/sandbox.h"

static bool refused(long ret)
{
	return ret == -1 && errno == EPERM;
}

static long try_bpf(int cmd)
{
	union bpf_attr attr = {0};

	return syscall(SYS_bpf, cmd, &attr, sizeof(attr));
}

static long try_perf(void)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr)};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

/* The filter returns EPERM where the kernel would return another errno, or none. Returns the line
 * of a failure, or 0. */
static int inside(void)
{
	char *const argv[] = {"true", NULL};
	struct rlimit lim;
	int fd;

	if (!refused(execv("/bin/true", argv)) || !refused(fork()))
		return __LINE__;
	if (!refused(open("/dev/null", O_WRONLY)) || !refused(open("/dev/null", O_RDWR)))
		return __LINE__;
	if (!refused(open(".", O_TMPFILE | O_WRONLY, 0600)) || !refused(unlink("/none/none")))
		return __LINE__;
	if (!refused(socket(AF_UNIX, SOCK_STREAM, 0)) || !refused(mount("", "/none", "", 0, "")))
		return __LINE__;
	if (!refused(ptrace(PTRACE_ATTACH, -1, 0, 0)) || !refused(setuid(getuid())))
		return __LINE__;
	if (!refused(ioctl(-1, TIOCSTI, "x")) || !refused(syscall(SYS_memfd_create, NULL, 0)))
		return __LINE__;
	if (!refused(prlimit(getppid(), RLIMIT_NOFILE, NULL, &lim)))
		return __LINE__;
	if (!refused(ioctl(-1, TCSETS, &lim)) || !refused(ioctl(-1, TCSETSW, &lim)))
		return __LINE__;
	for (int cmd = BPF_PROG_LOAD; cmd <= BPF_OBJ_GET; cmd++)
		if (!refused(try_bpf(cmd)))
			return __LINE__;
	if (!refused(try_bpf(BPF_MAP_CREATE)) || !refused(try_bpf(BPF_PROG_GET_FD_BY_ID)) ||
	    !refused(try_bpf(BPF_MAP_GET_FD_BY_ID)) || !refused(try_bpf(BPF_BTF_LOAD)))
		return __LINE__;
	/* Only the process that attaches may do this. */
	if (!refused(try_perf()) || !refused(try_bpf(BPF_LINK_CREATE)))
		return __LINE__;

	fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || kill(getpid(), 0) || getrlimit(RLIMIT_NOFILE, &lim))
		return __LINE__;
	/* Errors from the kernel itself. */
	if (ioctl(fd, TIOCGWINSZ, &lim) != -1 || errno != ENOTTY)
		return __LINE__;
	return 0;
}

/* cudatrace top: it may set its terminal's modes, but not insert input. */
static int screen_inside(void)
{
	struct rlimit lim;

	if (!refused(ioctl(-1, TIOCSTI, "x")) || !refused(open("/dev/null", O_WRONLY)) ||
	    !refused(fork()))
		return __LINE__;
	for (int request = TCSETS; request <= TCSETSF; request++)
		if (ioctl(-1, request, &lim) != -1 || errno != EBADF)
			return __LINE__;
	return 0;
}

/* The daemon: new files in its folder, sockets; no existing file, no program, no other socket,
 * nothing setuid. */
static int daemon_inside(void)
{
	char *const argv[] = {"true", NULL};
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/tmp/cudatrace-sandbox-%d", getpid());
	if (!refused(execv("/bin/true", argv)) || !refused(fork()))
		return __LINE__;
	if (!refused(open("/proc/self/mem", O_RDWR)) || !refused(open("/dev/null", O_WRONLY)) ||
	    !refused(open(path, O_WRONLY | O_CREAT, 0600)) ||
	    !refused(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600)) ||
	    !refused(open(path, O_RDWR | O_CREAT | O_EXCL, 0600)) ||
	    !refused(open(path, O_WRONLY | O_CREAT | O_EXCL, 04755)) ||
	    !refused(open("/tmp", O_TMPFILE | O_WRONLY, 0600)))
		return __LINE__;
	if (!refused(syscall(SYS_openat2, AT_FDCWD, "/dev/null", NULL, 0)))
		return __LINE__;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return __LINE__;
	if (!refused(chmod(path, 04755)) || !refused(fchmod(fd, 02755)) || chmod(path, 0660) ||
	    !refused(chown(path, 65534, 0)) || !refused(fchown(fd, 0, 0)) || chown(path, 0, 65534))
		return __LINE__;
	if (unlink(path))
		return __LINE__;
	if (!refused(socket(AF_PACKET, SOCK_RAW, 0)) || !refused(socket(AF_VSOCK, SOCK_STREAM, 0)))
		return __LINE__;
	if (socket(AF_NETLINK, SOCK_RAW, 0) != -1 || errno != EAFNOSUPPORT)
		return __LINE__;
	if (socket(AF_UNIX, SOCK_STREAM, 0) < 0 || socket(AF_INET, SOCK_STREAM, 0) < 0)
		return __LINE__;
	if (!refused(mount("", "/none", "", 0, "")) || !refused(setuid(getuid())) ||
	    !refused(ptrace(PTRACE_ATTACH, -1, 0, 0)) ||
	    !refused(syscall(SYS_process_vm_writev, getppid(), NULL, 0, NULL, 0, 0)))
		return __LINE__;
	for (int cmd = BPF_PROG_LOAD; cmd <= BPF_OBJ_GET; cmd++)
		if (!refused(try_bpf(cmd)))
			return __LINE__;
	return refused(try_perf()) ? 0 : __LINE__;
}

/* cudatrace-read: opens no file for writing, makes no process except through the maker. */
static int reader_inside(void)
{
	char *const argv[] = {"true", NULL};
	struct {
		uint64_t flags, mode, resolve;
	} how = {.flags = O_PATH};
	struct iovec iov = {0};
	int fd;

	if (!refused(execv("/bin/true", argv)) || !refused(fork()) ||
	    !refused(unshare(CLONE_NEWUSER)))
		return __LINE__;
	if (!refused(open("/dev/null", O_WRONLY)) || !refused(open("/proc/self/mem", O_RDWR)) ||
	    !refused(open("/tmp/cudatrace-none", O_CREAT, 0600)) ||
	    !refused(open(".", O_TMPFILE | O_WRONLY, 0600)) || !refused(unlink("/none/none")) ||
	    !refused(syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how))))
		return __LINE__;
	if (!refused(socket(AF_UNIX, SOCK_STREAM, 0)) || !refused(mount("", "/none", "", 0, "")) ||
	    !refused(setuid(getuid())) || !refused(ptrace(PTRACE_ATTACH, -1, 0, 0)) ||
	    !refused(kill(getppid(), 0)))
		return __LINE__;
	if (!refused(syscall(SYS_process_vm_writev, 1, &iov, 1, &iov, 1, 0)) ||
	    !refused(syscall(SYS_process_vm_readv, 1, &iov, 1, &iov, 1, 0)) ||
	    !refused(try_bpf(BPF_MAP_CREATE)) || !refused(try_perf()))
		return __LINE__;
	if (!refused(ioctl(-1, TIOCSTI, "x")) || !refused(ioctl(-1, TIOCGWINSZ, &how)))
		return __LINE__;
	fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	return fd >= 0 && syscall(SYS_memfd_create, "x", 0) >= 0 ? 0 : __LINE__;
}

/* Makes processes; one of them gives up that right, too. */
static int maker_inside(void)
{
	char *const argv[] = {"true", NULL};
	int status = 0, line = 0, fds[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) || !refused(execv("/bin/true", argv)) ||
	    !refused(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)))
		return __LINE__;
	pid = fork();
	if (pid < 0)
		return __LINE__;
	if (!pid) {
		sandbox__enter_reader(false);
		line = reader_inside();
		(void)!write(fds[1], &line, sizeof(line));
		_exit(0);
	}
	return read(fds[0], &status, sizeof(status)) == sizeof(status) ? status : __LINE__;
}

/* The process that attaches: links, and a child process to inspect others. No maps, no new
 * programs, no files, no signals to processes other than its own, except those that any process may
 * send. */
static int links_inside(void)
{
	char *const argv[] = {"true", NULL};
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	if (pid < 0 || waitpid(pid, NULL, 0) != pid)
		return __LINE__;
	if (!refused(execv("/bin/true", argv)) || !refused(open("/dev/null", O_WRONLY)) ||
	    !refused(socket(AF_UNIX, SOCK_STREAM, 0)) || !refused(ptrace(PTRACE_ATTACH, -1, 0, 0)))
		return __LINE__;
	for (int cmd = BPF_MAP_CREATE; cmd <= BPF_OBJ_GET; cmd++)
		if (!refused(try_bpf(cmd)))
			return __LINE__;
	return refused(try_bpf(BPF_LINK_CREATE)) ? __LINE__ : 0;
}

static int multi_inside(void)
{
	return refused(try_perf()) ? links_inside() : __LINE__;
}

static int perf_inside(void)
{
	if (refused(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0)))
		return __LINE__;
	return links_inside();
}

/* cudatrace-open: files, with their owners' rights; nothing else. */
static int opener_inside(void)
{
	char *const argv[] = {"true", NULL};
	struct iovec iov = {0};

	if (!refused(execv("/bin/true", argv)) || !refused(fork()) || !refused(setuid(getuid())))
		return __LINE__;
	if (!refused(socket(AF_UNIX, SOCK_STREAM, 0)) || !refused(mount("", "/none", "", 0, "")) ||
	    !refused(unlink("/none/none")) || !refused(kill(getppid(), 0)) ||
	    !refused(ptrace(PTRACE_ATTACH, -1, 0, 0)) || !refused(chmod("/none", 0)))
		return __LINE__;
	if (!refused(syscall(SYS_process_vm_writev, 1, &iov, 1, &iov, 1, 0)) ||
	    !refused(try_bpf(BPF_MAP_CREATE)) || !refused(try_perf()) ||
	    !refused(ioctl(-1, TIOCSTI, "x")))
		return __LINE__;
	return open("/dev/null", O_WRONLY) >= 0 ? 0 : __LINE__;
}

static int refused_call(void)
{
	return refused(socket(AF_UNIX, SOCK_STREAM, 0)) ? 0 : __LINE__;
}

static void enter_reader(void)
{
	sandbox__enter_reader(true);
}

/* The line that a child in the sandbox returned (needs NULL: entered by enter); its output is in
 * said. */
static int in_sandbox_of(const struct sandbox_needs *needs, void (*enter)(void), int (*fn)(void),
			 char *said, size_t size)
{
	int fds[2], status = 0;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		int line;

		dup2(fds[1], STDERR_FILENO);
		if (needs)
			sandbox__enter(needs);
		else
			enter();
		line = fn();
		/* An exit status has 8 bits. */
		(void)!write(fds[1], &line, sizeof(line));
		_exit(0);
	}
	close(fds[1]);
	memset(said, 0, size);
	for (size_t at = 0; at < size && (n = read(fds[0], said + at, size - at)) > 0;)
		at += n;
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int in_sandbox(const struct sandbox_needs *needs, int (*fn)(void), char *said, size_t size)
{
	return in_sandbox_of(needs, enter_reader, fn, said, size);
}

static int line_of(const char *said, size_t len)
{
	int line;

	memcpy(&line, said + len, sizeof(line));
	return line;
}

static void test_refused(void **state)
{
	char said[256];

	assert_int_equal(in_sandbox(&(struct sandbox_needs){0}, inside, said, sizeof(said)), 0);
	assert_int_equal(line_of(said, 0), 0);
}

static void test_screen(void **state)
{
	char said[256];

	assert_int_equal(in_sandbox(&(struct sandbox_needs){.screen = true}, screen_inside, said,
				    sizeof(said)),
			 0);
	assert_int_equal(line_of(said, 0), 0);
}

static void test_daemon(void **state)
{
	char said[256];

	assert_int_equal(in_sandbox(&(struct sandbox_needs){.daemon = true}, daemon_inside, said,
				    sizeof(said)),
			 0);
	assert_int_equal(line_of(said, 0), 0);
}

static void test_reader(void **state)
{
	char said[256];

	assert_int_equal(in_sandbox(NULL, maker_inside, said, sizeof(said)), 0);
	assert_int_equal(line_of(said, 0), 0);
}

static void test_opener(void **state)
{
	char said[256];

	assert_int_equal(
		in_sandbox_of(NULL, sandbox__enter_opener, opener_inside, said, sizeof(said)), 0);
	assert_int_equal(line_of(said, 0), 0);
}

static void test_links(void **state)
{
	const struct sandbox_needs multi = {.links = true};
	const struct sandbox_needs perf = {.links = true, .perf_probes = true};
	char said[256];

	assert_int_equal(in_sandbox(&multi, multi_inside, said, sizeof(said)), 0);
	assert_int_equal(line_of(said, 0), 0);
	assert_int_equal(in_sandbox(&perf, perf_inside, said, sizeof(said)), 0);
	assert_int_equal(line_of(said, 0), 0);
}

/* -v: prints the call, and goes on. */
static void test_message(void **state)
{
	char said[256], want[128];

	log_set_level(LOG_DEBUG);
	assert_int_equal(in_sandbox(&(struct sandbox_needs){0}, refused_call, said, sizeof(said)),
			 0);
	log_set_level(LOG_INFO);
	snprintf(want, sizeof(want),
		 "cudatrace: debug: the sandbox refuses system call %d: try --no-sandbox, and "
		 "report it\n",
		 SYS_socket);
	assert_memory_equal(said, want, strlen(want));
	assert_int_equal(line_of(said, strlen(want)), 0);
}

static void test_kills(void **state)
{
	char said[256];
	int status;

	setenv("CUDATRACE_SANDBOX", "kill", 1);
	status = in_sandbox(&(struct sandbox_needs){0}, refused_call, said, sizeof(said));
	unsetenv("CUDATRACE_SANDBOX");
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused), cmocka_unit_test(test_daemon),
		cmocka_unit_test(test_links),	cmocka_unit_test(test_message),
		cmocka_unit_test(test_kills),	cmocka_unit_test(test_reader),
		cmocka_unit_test(test_opener),	cmocka_unit_test(test_screen),
	};

	unsetenv("CUDATRACE_SANDBOX");
	return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
