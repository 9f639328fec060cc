/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The second reading of a trace header, by the one file that defines
 * CREATE_TRACE_POINTS: a table of the fields of each record.
 */
#ifdef CREATE_TRACE_POINTS
#undef CREATE_TRACE_POINTS

#define SHIM_STRING(name)	SHIM_STRING_(name)
#define SHIM_STRING_(name)	#name

#define TRACE_HEADER_MULTI_READ
#undef __field
#undef DECLARE_EVENT_CLASS
#undef DEFINE_EVENT
#undef TRACE_EVENT

#define SHIM_FIELD_KIND(type)						\
	_Generic((type)0, char: PV_SIGNED, signed char: PV_SIGNED,	\
		 short: PV_SIGNED, int: PV_SIGNED, long: PV_SIGNED,	\
		 long long: PV_SIGNED, bool: PV_UNSIGNED,		\
		 unsigned char: PV_UNSIGNED, unsigned short: PV_UNSIGNED, \
		 unsigned int: PV_UNSIGNED, unsigned long: PV_UNSIGNED,	\
		 unsigned long long: PV_UNSIGNED, default: PV_POINTER)

#define __field(type, item)						\
	{ #item, offsetof(record_t, item), sizeof(type), SHIM_FIELD_KIND(type) },

#define DECLARE_EVENT_CLASS(class, proto, args, list, assign, print)	\
	static __attribute__((no_sanitize("thread")))			\
	struct pv_event_type trace_describe_##class(const char *name)	\
	{								\
		typedef struct trace_event_raw_##class record_t;	\
		static const struct pv_field fields[] = { list };	\
									\
		return (struct pv_event_type) {				\
			name, sizeof(record_t),				\
			sizeof(fields) / sizeof(fields[0]), fields };	\
	}

/* The tables are complete before main(), which keeps them as they are. */
#define DEFINE_EVENT(class, name, proto, args)				\
	struct pv_event_type trace_type_##name;				\
	static __attribute__((constructor, no_sanitize("thread")))	\
	void trace_init_##name(void)					\
	{								\
		trace_type_##name = trace_describe_##class(#name);	\
	}

#define TRACE_EVENT(name, proto, args, list, assign, print)		\
	DECLARE_EVENT_CLASS(name, TP_PROTO(proto), TP_ARGS(args),	\
			    TP_STRUCT__entry(list), TP_fast_assign(assign), \
			    TP_printk(print))				\
	DEFINE_EVENT(name, name, TP_PROTO(proto), TP_ARGS(args))

#include SHIM_STRING(TRACE_INCLUDE_PATH/TRACE_INCLUDE_FILE.h)

#undef TRACE_HEADER_MULTI_READ
#endif /* CREATE_TRACE_POINTS */
