/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_TRACEPOINT_H
#define PROVE_SHIM_LINUX_TRACEPOINT_H

#include <linux/compiler.h>
#include <linux/types.h>

/*
 * A tracepoint fills in its record and gives it to the engine, as part of the trace:
 * no step. trace/define_trace.h makes the table by which a record's fields are named.
 */
#define TP_PROTO(...)		__VA_ARGS__
#define TP_ARGS(...)		__VA_ARGS__
#define TP_STRUCT__entry(...)	__VA_ARGS__
#define TP_fast_assign(...)	__VA_ARGS__
#define TP_printk(...)		__VA_ARGS__
#define TRACE_DEFINE_ENUM(value)

#define __field(type, item)	type item;

#define DECLARE_EVENT_CLASS(class, proto, args, fields, assign, print)	\
	struct trace_event_raw_##class { fields };			\
	static inline __attribute__((no_sanitize("thread")))		\
	void trace_class_##class(const struct pv_event_type *__type, proto) \
	{								\
		struct trace_event_raw_##class __record, *__entry = &__record; \
									\
		__builtin_memset(__entry, 0, sizeof(__record));		\
		assign							\
		pv_event(__type, __entry);				\
	}

#define DEFINE_EVENT(class, name, proto, args)				\
	extern struct pv_event_type trace_type_##name;			\
	static inline void trace_##name(proto)				\
	{								\
		trace_class_##class(&trace_type_##name, args);		\
	}								\
	static inline bool trace_##name##_enabled(void)			\
	{								\
		return true;						\
	}

#define TRACE_EVENT(name, proto, args, fields, assign, print)		\
	DECLARE_EVENT_CLASS(name, TP_PROTO(proto), TP_ARGS(args),	\
			    TP_STRUCT__entry(fields), TP_fast_assign(assign), \
			    TP_printk(print))				\
	DEFINE_EVENT(name, name, TP_PROTO(proto), TP_ARGS(args))

#endif /* PROVE_SHIM_LINUX_TRACEPOINT_H */
