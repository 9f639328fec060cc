// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Names of the program's variables, read from its own file. */
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

static ENGINE_STATE const char *image;

static const char *map_image(void)
{
	struct stat st;
	const char *p = NULL;
	int fd = open("/proc/self/exe", O_RDONLY);

	if (fd >= 0 && !fstat(fd, &st)) {
		p = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (p == MAP_FAILED)
			p = NULL;
	}
	if (fd >= 0)
		close(fd);
	return p;
}

static const Elf64_Shdr *symbol_table(void)
{
	const Elf64_Ehdr *header = (const void *)image;
	const Elf64_Shdr *s = (const void *)(image + header->e_shoff);

	for (int i = 0; i < header->e_shnum; i++)
		if (s[i].sh_type == SHT_SYMTAB)
			return &s[i];
	return NULL;
}

/* The name of the variable at or around p, and the offset in it; NULL if none. */
const char *symbol_at(const void *p, unsigned long *offset)
{
	const Elf64_Shdr *table, *strings;
	const Elf64_Sym *sym;

	if (!image)
		image = map_image();
	table = image ? symbol_table() : NULL;
	if (!table)
		return NULL;
	strings = (const Elf64_Shdr *)(image + ((const Elf64_Ehdr *)image)->e_shoff) +
		  table->sh_link;
	sym = (const void *)(image + table->sh_offset);
	for (unsigned long i = 0; i < table->sh_size / sizeof(*sym); i++) {
		*offset = (uintptr_t)p - sym[i].st_value;
		if (ELF64_ST_TYPE(sym[i].st_info) == STT_OBJECT && *offset < sym[i].st_size)
			return image + strings->sh_offset + sym[i].st_name;
	}
	return NULL;
}
