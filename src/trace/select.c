/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Selects the functions that are traced, counted, probed at their entry only, or have stacks and
 * Python frames. */
#include "session.h"

#include "attach/find/elf.h"
#include "util/time_budget.h"
#include "attach/find/target.h"
#include "util/log.h"

#include <unistd.h>

/* An invalid expression: its option, and the error. */
struct bad_expr {
	const char *option;
	char why[512];
};

static int mark_functions(struct session *s, const struct strv *sets, enum fnset_mark mark,
			  const char *option, struct bad_expr *wrong)
{
	int ret = 0;

	wrong->option = option;
	for (unsigned i = 0; i < sets->cnt && !ret; i++)
		ret = fnset__mark(s->t.fns, mark, sets->v[i], wrong->why, sizeof(wrong->why));
	return ret;
}

static int choose(struct session *s, struct bad_expr *wrong)
{
	int ret = 0;

	wrong->option = "-e";
	for (unsigned i = 0; i < s->o->select.cnt && !ret; i++)
		ret = fnset__select(s->t.fns, s->o->select.v[i], wrong->why, sizeof(wrong->why));
	ret = ret ?: mark_functions(s, &s->o->count, FNSET_COUNT, "--count", wrong);
	ret = ret ?: mark_functions(s, &s->o->entry_only, FNSET_NO_RETURN, "--entry-only", wrong);
	ret = ret ?: mark_functions(s, &s->o->stack, FNSET_STACK, "--stack", wrong);
	return ret ?: mark_functions(s, &s->o->python, FNSET_PYTHON, "--python", wrong);
}

static void learn_lib(struct session *s, const struct target_lib *t)
{
	int fd = target_lib__open(t);
	struct elf_lib *elf = NULL;
	char why[256];
	struct work w;

	if (fd < 0)
		return;
	if (!time_budget__begin(&w, 0, WORK_LIBRARIES)) {
		elf = elf_lib__read(fd, t->api, why, sizeof(why));
		time_budget__end(&w);
	}
	close(fd);
	for (unsigned i = 0; elf && i < elf->sym_cnt; i++)
		fnset__id(s->t.fns, elf->syms[i].name);
	elf_lib__free(elf);
}

/* Adds functions that the libraries to be attached export and the table lacks. */
static void learn(struct session *s)
{
	const struct session_opts *o = s->o;
	struct target_libs list = {0};

	if (o->libcuda)
		target_libs__add_file(&list, o->libcuda);
	for (unsigned i = 0; i < o->pid_cnt; i++) {
		target_libs__add_pid(&list, o->pids[i]);
		target_libs__add_loadable(&list, o->pids[i]);
	}
	if (!o->pid_cnt) {
		if (!o->argv)
			target_libs__add_all(&list);
		target_libs__add_system(&list);
	}
	for (unsigned i = 0; i < list.cnt; i++)
		learn_lib(s, &list.libs[i]);
	target_libs__clear(&list);
}

/* What begins and ends a capture range must be recorded. */
static int check_capture(const struct session *s)
{
	static const char *const names[] = {"cuProfilerStart", "cuProfilerStop"};

	for (unsigned i = 0; s->o->capture == CAPTURE_PROFILER && i < 2; i++) {
		int id = fnset__find(s->t.fns, names[i]);

		if (id >= 0 && fnset__wanted(s->t.fns, id) &&
		    !fnset__is_marked(s->t.fns, FNSET_COUNT, id) &&
		    !fnset__is_marked(s->t.fns, FNSET_NO_RETURN, id))
			continue;
		err("--capture-range=cudaProfilerApi needs the calls of %s: leave it out of -e '!...', "
		    "--count and --entry-only",
		    names[i]);
		return EXIT_USAGE;
	}
	return 0;
}

int session__select(struct session *s)
{
	struct bad_expr wrong;

	fnset__set_detail(s->t.fns, s->o->detail);
	if (s->o->nvtx)
		fnset__add(s->t.fns, API_NVTX);
	if (s->o->torch)
		fnset__add(s->t.fns, API_TORCH);
	if (!choose(s, &wrong))
		return check_capture(s);
	/* It may name functions that only this machine's libraries have. */
	learn(s);
	if (!choose(s, &wrong)) {
		fnset__drop_unwanted(s->t.fns);
		return check_capture(s);
	}
	err("%s: %s", wrong.option, wrong.why);
	return EXIT_USAGE;
}
