/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * open-gpus: which GPU devices may this process open?
 *
 * Opens every device that /lab/gpus names, for reading and writing, and prints one line:
 *	open=2 denied=0,1,3 other=-
 * A number is the GPU's place in that file, from 0. "open": it opened, or ENXIO (the node
 * has no driver behind it, but the cgroup let us through). "denied": EPERM, the answer of
 * a device cgroup. Anything else is "other", as N:reason. No arguments.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GPUS "/lab/gpus"

struct list {
	char text[2048];
	size_t length;
};

static void append(struct list *list, const char *item)
{
	int written = snprintf(list->text + list->length, sizeof list->text - list->length,
			       "%s%s", list->length ? "," : "", item);
	if (written > 0 && list->length + (size_t) written < sizeof list->text)
		list->length += (size_t) written;
}

static const char *text_of(const struct list *list)
{
	return list->length ? list->text : "-";
}

int main(void)
{
	struct list opened = { "", 0 }, denied = { "", 0 }, other = { "", 0 };
	char line[512], name[64], path[80], item[160];
	FILE *gpus = fopen(GPUS, "re");
	int place = 0;

	if (!gpus) {
		perror(GPUS);
		return 1;
	}
	while (fgets(line, sizeof line, gpus)) {
		int fd;

		if (sscanf(line, "%63s", name) != 1 || name[0] == '#')
			continue;
		snprintf(path, sizeof path, "/dev/%s", name);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 || errno == ENXIO) {
			snprintf(item, sizeof item, "%d", place);
			append(&opened, item);
		} else if (errno == EPERM) {
			snprintf(item, sizeof item, "%d", place);
			append(&denied, item);
		} else {
			snprintf(item, sizeof item, "%d:%s", place, strerror(errno));
			append(&other, item);
		}
		if (fd >= 0)
			close(fd);
		place++;
	}
	fclose(gpus);
	printf("open=%s denied=%s other=%s\n", text_of(&opened), text_of(&denied), text_of(&other));
	return 0;
}
