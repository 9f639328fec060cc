// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The command line of a checker: BIN --list, or BIN SCENARIO and options.
 *
 * A checker is the engine, a shim, the files under test and scenarios, linked.
 * The engine and the shim are not instrumented; the files under test are:
 *
 *	gcc -std=gnu11 -O2 -g -fno-omit-frame-pointer -fno-pie -I ENGINE -c ENGINE/x.c
 *	gcc ... -fsanitize=thread --param tsan-distinguish-volatile=1 \
 *		--param tsan-instrument-func-entry-exit=1 -I ENGINE -c test.c
 *	gcc -no-pie -o BIN *.o			(without -fsanitize=thread)
 *
 * Scenarios and files under test are compiled the same way.  Everything keeps its
 * frame pointers: stacks are walked by them.
 *
 * --bound is the number of preemptions in the modes bound and enumerate, and that of
 * changes of priority in mode pct.  Without it a scenario's own bound counts, or else 3.
 * --hooks: in mode enumerate, threads are preempted at delay hooks only.
 * --past-races: a data race is no finding, and the execution goes on.
 *
 * Exit status: 0 nothing found, 1 found, 2 the command line is wrong.
 */
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define SAMPLES		10000	/* executions of the sampling modes, if none are given */
#define CLOCK_EVERY	256	/* executions between looks at the clock */

extern const struct prove_scenario *const __start_prove_scenarios[];
extern const struct prove_scenario *const __stop_prove_scenarios[];

static void __attribute__((noreturn, format(printf, 1, 2))) usage(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "prove: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(2);
}

static bool same_name(const char *id, const char *name)
{
	for (; *id && *name; id++, name++)
		if (*id != *name && !(*id == '_' && *name == '-'))
			return false;
	return *id == *name;
}

static const struct prove_scenario *find_scenario(const char *name)
{
	const struct prove_scenario *const *s;

	for (s = __start_prove_scenarios; s < __stop_prove_scenarios; s++)
		if (same_name((*s)->name, name))
			return *s;
	usage("no scenario is named %s: see --list", name);
}

static int list(void)
{
	const struct prove_scenario *const *s;

	for (s = __start_prove_scenarios; s < __stop_prove_scenarios; s++)
		report_scenario(*s);
	return 0;
}

static int one_of(const char *option, const char *word, const char *const *words, int n)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(words[i], word))
			return i;
	usage("--%s %s: it is one of %s, %s ...", option, word, words[0], words[1]);
}

static double number(const char *option, const char *word)
{
	char *end;
	double value = strtod(word, &end);

	if (end == word || *end || !(value >= 0))
		usage("--%s %s: a number of at least 0 is wanted", option, word);
	return value;
}

static const struct option long_options[] = {
	{ "list", no_argument, NULL, 'l' },
	{ "mode", required_argument, NULL, 'm' },
	{ "bound", required_argument, NULL, 'b' },
	{ "hooks", no_argument, NULL, 'h' },
	{ "memory", required_argument, NULL, 'o' },
	{ "past-races", no_argument, NULL, 'p' },
	{ "seed", required_argument, NULL, 's' },
	{ "executions", required_argument, NULL, 'e' },
	{ "seconds", required_argument, NULL, 't' },
	{ "replay", required_argument, NULL, 'r' },
	{ "records", required_argument, NULL, 'c' },
	{}
};

static void take_option(int letter, const char *name)
{
	static const char *const modes[] = { "dpor", "bound", "enumerate", "random", "pct" };
	static const char *const memories[] = { "sc", "tso", "pso", "weak" };
	struct options *o = &engine.options;

	switch (letter) {
	case 'm':
		o->mode = one_of(name, optarg, modes, 5);
		break;
	case 'o':
		o->memory = one_of(name, optarg, memories, 4);
		break;
	case 'b':
		o->bound = number(name, optarg);
		break;
	case 'h':
		o->hooks = true;
		break;
	case 'p':
		o->past_races = true;
		break;
	case 's':
		o->seed = number(name, optarg);
		break;
	case 'e':
		o->executions = number(name, optarg);
		break;
	case 't':
		o->seconds = number(name, optarg);
		break;
	case 'c':
		o->records = number(name, optarg);
		break;
	case 'r':
		o->mode = MODE_REPLAY;
		if (!replay_parse(optarg))
			usage("--replay %s: not a schedule", optarg);
		break;
	}
}

static void parse(int argc, char **argv)
{
	int letter, index = 0;

	engine.options.bound = -1;
	opterr = 0;
	while ((letter = getopt_long(argc, argv, ":", long_options, &index)) != -1) {
		if (letter == 'l')
			exit(list());
		if (letter == '?' || letter == ':')
			usage("%s: no such option, or its value is missing", argv[optind - 1]);
		take_option(letter, long_options[index].name);
	}
	if (optind != argc - 1)
		usage("one scenario is wanted: see --list");
	engine.options.scenario = find_scenario(argv[optind]);
	if (engine.options.bound < 0)
		engine.options.bound = engine.options.scenario->bound ?: 3;
	if (engine.options.mode == MODE_REPLAY)
		engine.options.executions = 1;
	if (engine.options.mode == MODE_BOUND || engine.options.mode == MODE_ENUMERATE)
		engine.unlocks_are_steps = true;
	if (engine.options.mode > MODE_ENUMERATE && !engine.options.executions &&
	    !engine.options.seconds)
		engine.options.executions = SAMPLES;
}

/* Addresses of the stack and of libraries must be the same in each run. */
static void fix_addresses(char **argv)
{
	int now = personality(0xffffffff);

	if (now & ADDR_NO_RANDOMIZE)
		return;
	if (personality(now | ADDR_NO_RANDOMIZE) != -1)
		execv("/proc/self/exe", argv);
	/* Where this is refused, only addresses that are printed may differ. */
}

static void crashed(int signal, siginfo_t *info, void *context)
{
	(void)context;
	if (!engine.playing)
		_exit(128 + signal);
	pv_fail(PV_CRASH, "signal %d at address %p", signal, info->si_addr);
}

static void catch_crashes(void)
{
	static ENGINE_STATE char stack[64 << 10];
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = {
		.sa_sigaction = crashed, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER,
	};

	sigaltstack(&alternate, NULL);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGILL, &action, NULL);
	sigaction(SIGFPE, &action, NULL);
}

/* Zeros, for what may become large. */
void *map_zeroed(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

static void prepare(void)
{
	engine.step = map_zeroed((MAX_STEPS + 1) * sizeof(*engine.step));
	engine.clock = map_zeroed((MAX_STEPS + 1) * sizeof(*engine.clock));
	engine.event = map_zeroed(MAX_STEPS * sizeof(*engine.event));
	make_stacks();
	heap_init();
	races_init();
	catch_crashes();
	engine.epoch = 1;
	engine.finder = PV_ALONE;
}

/* Returns false if it had a finding. */
static bool run_setup(void)
{
	engine.playing = true;
	if (!_setjmp(engine.out)) {
		declare_threads();
		if (pv_on_setup)
			pv_on_setup();
		if (engine.options.scenario->setup)
			engine.options.scenario->setup();
		locks_at_end();
	}
	world.failures = engine.options.scenario->fails;
	state_save();
	return !engine.finding;
}

static void reset(void)
{
	engine.epoch++;
	engine.depth = 0;
	engine.depth_settled = 0;
	engine.sleep = 0;
	engine.last = -1;
	engine.preemptions = 0;
	engine.updated = NULL;
	engine.redundant = false;
	engine.restart = false;
	engine.learnt = false;
	engine.finding = PV_NO_FINDING;
	engine.finder = PV_ALONE;
	engine.place = NULL;
	engine.other_place = NULL;
}

void play_again(void)
{
	reset();
	state_restore();
	order_reset();
	weak_reset();
	if (engine.options.mode > MODE_ENUMERATE)
		sample_reset();
	play();
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static const char *out_of(double started)
{
	const struct options *o = &engine.options;

	if (o->executions && engine.executed >= o->executions)
		return "executions";
	if (o->seconds && engine.executed % CLOCK_EVERY == 0 && now() - started >= o->seconds)
		return "seconds";
	return NULL;
}

/* What was learnt changes which steps there are: from the beginning. */
static void begin_anew(void)
{
	engine.prefix = 0;
	forget_states();
	engine.executed = 0;
	engine.pruned = 0;
	engine.steps = 0;
	engine.deepest = 0;
	if (engine.options.records)
		printf("{\"type\":\"anew\"}\n");
}

/* Explores; returns why it did not complete, or NULL. */
static const char *explore(double started)
{
	const struct options *o = &engine.options;

	for (;;) {
		const char *why_not;

		engine.recording = o->records && engine.executed % o->records == 0;
		play_again();
		if (engine.restart || (engine.learnt && !engine.finding)) {
			begin_anew();
			continue;
		}
		/* What goes on as an earlier execution did is not complete. */
		if (engine.recording && engine.redundant)
			printf("{\"type\":\"cut\",\"execution\":%ld}\n", engine.executed);
		engine.executed++;
		engine.pruned += engine.redundant;
		if (engine.depth > engine.deepest)
			engine.deepest = engine.depth;
		if (engine.finding)
			return "finding";
		if (o->mode <= MODE_ENUMERATE && !next_execution())
			return engine.too_many_lanes ? "lanes" : NULL;
		why_not = out_of(started);
		if (why_not)
			return why_not;
	}
}

int main(int argc, char **argv)
{
	const char *why_not = "finding";
	double started;

	fix_addresses(argv);
	parse(argc, argv);
	prepare();
	started = now();
	if (run_setup())
		why_not = explore(started);
	engine.recording = false;
	report_trace();
	report_result(!why_not, why_not, now() - started);
	return engine.finding ? 1 : 0;
}
