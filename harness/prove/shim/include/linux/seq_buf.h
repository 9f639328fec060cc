/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_SEQ_BUF_H
#define PROVE_SHIM_LINUX_SEQ_BUF_H

#include <stdarg.h>
#include <stdio.h>

#include <linux/compiler.h>
#include <linux/types.h>

/* Text of a fixed size; len is size + 1 once it did not fit. */
struct seq_buf {
	char *buffer;
	size_t size;
	size_t len;
};

static inline void seq_buf_init(struct seq_buf *s, char *buffer, unsigned int size)
{
	s->buffer = buffer;
	s->size = size;
	s->len = 0;
}

static inline __printf(2, 3) int seq_buf_printf(struct seq_buf *s,
						const char *format, ...)
{
	va_list args;
	int n = 0;

	va_start(args, format);
	if (s->len < s->size)
		n = vsnprintf(s->buffer + s->len, s->size - s->len, format, args);
	va_end(args);
	s->len = s->len + n < s->size ? s->len + n : s->size + 1;
	return s->len > s->size ? -1 : 0;
}

static inline bool seq_buf_has_overflowed(struct seq_buf *s)
{
	return s->len > s->size;
}

#endif /* PROVE_SHIM_LINUX_SEQ_BUF_H */
