/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Two processes at once: addresses may be the same, sums are not mixed up. */
#include "mem_calls.h"

#include <sys/wait.h>

static int up[2], down[2];

static void put(int fd)
{
	if (write(fd, "x", 1) != 1)
		die("pipe");
}

static void get(int fd)
{
	char c;

	if (read(fd, &c, 1) != 1)
		die("pipe");
}

static int child(void)
{
	case_context();
	case_alloc(3 * MIB);
	put(up[1]);
	get(down[0]);
	case_free(case_alloc(1000));
	return 0;
}

int main(void)
{
	int status;
	pid_t pid;
	dptr p;

	case_open();
	if (pipe(up) || pipe(down))
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("cannot fork");
	if (!pid)
		return child();
	case_context();
	get(up[0]);
	p = case_alloc(MIB);
	case_free(p);
	put(down[1]);
	if (waitpid(pid, &status, 0) != pid || status)
		die("the child failed");
	case_free(case_alloc(2 * MIB));
	case_report("{'memory':{'devices':["
		    "{'device':0,'pid':%d,'live_bytes':3145728,'peak_bytes':3146728},"
		    "{'device':0,'pid':%d,'live_bytes':0,'peak_bytes':2097152}],"
		    "'peak_bytes':4194304,'leak_count':1,"
		    "'leaks':[{'size':3145728,'pid':%d,'end':'exit','device':0}],"
		    "'kinds':[{'kind':'device','allocs':4,'frees':3,'live_bytes':3145728,"
		    "'peak_bytes':4194304}],'bad_frees':[],'unmatched_frees':0,'unseen_frees':0}}",
		    (int)pid, getpid(), (int)pid);
	return 0;
}
