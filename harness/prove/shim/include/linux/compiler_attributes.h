/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_COMPILER_ATTRIBUTES_H
#define PROVE_SHIM_LINUX_COMPILER_ATTRIBUTES_H

#define __user
#define __iomem
#define __rcu
#define __kernel
#define __percpu
#define __bitwise
#define __force
#define __init
#define __exit
#define __ro_after_init
#define __read_mostly
#define __must_hold(lock)
#define __acquires(lock)
#define __releases(lock)
#define __acquire(lock)
#define __release(lock)
#define __must_check		__attribute__((warn_unused_result))
#define __maybe_unused		__attribute__((unused))
#define __always_unused		__attribute__((unused))
#define __aligned(n)		__attribute__((aligned(n)))
#define __packed		__attribute__((packed))
#define __printf(text, first)	__attribute__((format(printf, text, first)))
#define __cold			__attribute__((cold))
#define __pure			__attribute__((pure))
#define __weak			__attribute__((weak))
#define __counted_by(member)
#define __cacheline_aligned
#define ____cacheline_aligned
#define ____cacheline_aligned_in_smp
#define noinline		__attribute__((noinline))
#ifndef __always_inline
#define __always_inline		inline __attribute__((always_inline))
#endif
#define fallthrough		__attribute__((fallthrough))

#endif /* PROVE_SHIM_LINUX_COMPILER_ATTRIBUTES_H */
