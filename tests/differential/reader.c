/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * reader: what Slurm itself makes of tres_per_node strings, by the function that slurmctld calls.
 *
 * stdin: a string a line, in hexadecimal. stdout: an answer a line,
 *     error 2072            Slurm refuses the string
 *     nothing               it asks for no GRES
 *     gpu=2 gpu:613430=1    name, type in hexadecimal if there is one (it may be empty), count
 * Exit status 2: this Slurm isn't the one that this program was written for.
 *
 * Needs libslurmfull and a slurm.conf with GresTypes (and SelectType=select/cons_tres in 22.05).
 */
#include <slurm/slurm.h>
#include <slurm/slurm_version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof(*(array)))

/* Exported by libslurmfull, in no public header. */
extern int slurm_conf_init(const char *path);
extern int gres_init(void);
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0) && SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(23, 11, 0)
#include <stdbool.h>
/* gres_init() of 23.02 asks the select plugin which one it is, and does not load it. */
extern int select_g_init(bool only_default);
#endif
extern int slurm_list_for_each(struct xlist *list, int (*visit)(void *entry, void *arg), void *arg);

/* An entry of the list that Slurm makes of a request: the first members of gres_state_t and gres_job_state_t. Only the
 * count per node is ever set here; in 26.05.5 one more count stands before it, and what follows it is unset too. So
 * the sum of the first three is the count per node in every release. check_layout() sees if that ceases to be true. */
struct request {
	uint32_t type_id;
	char *type;
	uint16_t flags, cpus;
	uint64_t counts[3];
};
struct entry {
	uint32_t config_flags, plugin_id;
	struct request *request;
	char *name;
};

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 5, 0)
struct gres_strings {
	char *cpus_per_tres, *mem_per_tres, *freq, *per_job, *per_node, *per_socket, *per_task;
	uint16_t *cpus_per_task;
	uint32_t *max_nodes, *min_cpus, *min_nodes;
	uint16_t *tasks_per_node, *tasks_per_socket, *tasks_per_tres;
	uint32_t *tasks;
	uint16_t *sockets_per_node;
	struct xlist **list;
};
extern int gres_job_state_validate(struct gres_strings *strings);
#else
extern int gres_job_state_validate(char *cpus_per_tres, char *freq, char *per_job, char *per_node, char *per_socket,
				   char *per_task, char *mem_per_tres, uint32_t *tasks, uint32_t *min_nodes,
				   uint32_t *max_nodes, uint16_t *tasks_per_node, uint16_t *tasks_per_socket,
				   uint16_t *sockets_per_node, uint16_t *cpus_per_task, uint16_t *tasks_per_tres,
				   struct xlist **list);
#endif

/* Lets Slurm read a string as a job's tres_per_node, nothing else being asked for; its return code. */
static int validate(char *text, struct xlist **list)
{
	uint32_t tasks = NO_VAL, min_nodes = 1, max_nodes = NO_VAL;
	uint16_t per_node = NO_VAL16, per_socket = NO_VAL16, sockets = NO_VAL16, cpus = NO_VAL16, per_tres = NO_VAL16;
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 5, 0)
	uint32_t min_cpus = 1;
	struct gres_strings strings = {
		.per_node = text, .cpus_per_task = &cpus, .max_nodes = &max_nodes, .min_cpus = &min_cpus,
		.min_nodes = &min_nodes, .tasks_per_node = &per_node, .tasks_per_socket = &per_socket,
		.tasks_per_tres = &per_tres, .tasks = &tasks, .sockets_per_node = &sockets, .list = list,
	};
	return gres_job_state_validate(&strings);
#else
	return gres_job_state_validate(NULL, NULL, NULL, text, NULL, NULL, NULL, &tasks, &min_nodes, &max_nodes,
				       &per_node, &per_socket, &sockets, &cpus, &per_tres, list);
#endif
}

/* Appends what an entry asks for to a stream. */
static int describe(void *item, void *arg)
{
	struct entry *entry = item;
	struct request *request = entry->request;
	FILE *out = arg;
	fprintf(out, " %s", entry->name);
	if (request->type)
		fputc(':', out);
	for (const char *at = request->type; at && *at; at++)
		fprintf(out, "%02x", (unsigned char)*at);
	fprintf(out, "=%lu", (unsigned long)(request->counts[0] + request->counts[1] + request->counts[2]));
	return 0;
}

static void answer(char *text, FILE *out)
{
	struct xlist *list = NULL;
	int code = validate(text, &list);
	if (code)
		fprintf(out, "error %d", code);
	else if (!list)
		fputs("nothing", out);
	else
		slurm_list_for_each(list, describe, out);
	fputc('\n', out);
	if (list)
		slurm_list_destroy(list);
}

/* Reads strings whose meaning nobody disputes. */
static void check_layout(void)
{
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
	static const char *known[][2] = {
		{ "gres/gpu:a40:3,gres/nic:7", " gpu:613430=3 nic=7\n" }, { "gres/gpu", " gpu=1\n" } };
#else
	static const char *known[][2] = {
		{ "gres:gpu:a40:3,gres:nic:7", " gpu:613430=3 nic=7\n" }, { "gres:gpu", " gpu=1\n" } };
#endif
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		char *text = strdup(known[i][0]), *said = NULL;
		size_t size;
		FILE *out = open_memstream(&said, &size);
		if (!text || !out)
			exit(1);
		answer(text, out);
		fclose(out);
		if (strcmp(said, known[i][1])) {
			fprintf(stderr, "reader: Slurm %#x reads '%s' as%s", SLURM_VERSION_NUMBER, text, said);
			fprintf(stderr, "reader: its structures have changed, or its configuration lacks a GRES\n");
			exit(2);
		}
		free(text);
		free(said);
	}
}

static int digit(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* Turns hexadecimal digits into bytes, in place. */
static void decode(char *line)
{
	char *to = line;
	for (const char *from = line; from[0] && from[1] && from[0] != '\n'; from += 2)
		*to++ = (char)(digit(from[0]) << 4 | digit(from[1]));
	*to = '\0';
}

int main(void)
{
	char *line = NULL;
	size_t size = 0;
	slurm_conf_init(NULL);
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0) && SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(23, 11, 0)
	select_g_init(true);
#endif
	if (gres_init()) {
		fprintf(stderr, "reader: Slurm's GRES plugins can't be loaded\n");
		return 2;
	}
	check_layout();
	/* A line of Slurm's log for each string that it refuses. */
	if (!freopen("/dev/null", "w", stderr))
		return 1;
	while (getline(&line, &size, stdin) > 0) {
		decode(line);
		answer(line, stdout);
	}
	free(line);
	return fflush(stdout) ? 1 : 0;
}
