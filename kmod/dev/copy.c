// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Values, texts and addresses on their way from and to the user.
 */
#include <linux/slab.h>
#include <linux/string.h>

#include "kfd.h"

/**
 * kfd_deadline() - check a deadline from the user
 * @deadline: nanoseconds of CLOCK_MONOTONIC, KFAB_DEADLINE_NOW or _NONE
 * @out: the same deadline for kfabric
 *
 * Context: Any.
 * Return: 0; -EINVAL for a time before the start of the clock.
 */
int kfd_deadline(s64 deadline, ktime_t *out)
{
	*out = deadline;
	return deadline < 0 ? -EINVAL : 0;
}

/**
 * kfd_dup_user() - read an array from the user, charged to the user's memory cgroup
 * @uaddr: its address
 * @len: bytes, not 0
 *
 * Context: Process, may sleep and fault.
 * Return: the array, to be freed by kvfree(); or an ERR_PTR: -EFAULT, -ENOMEM.
 */
void *kfd_dup_user(u64 uaddr, size_t len)
{
	void *array = kvmalloc(len, GFP_KERNEL_ACCOUNT | __GFP_NOWARN);

	if (!array)
		return ERR_PTR(-ENOMEM);
	if (copy_from_user(array, u64_to_user_ptr(uaddr), len)) {
		kvfree(array);
		return ERR_PTR(-EFAULT);
	}
	return array;
}

/**
 * kfd_string_user() - read a string from the user
 * @uaddr: address of a string of at most KFAB_NODE_MAX bytes, or 0
 *
 * Context: Process, may sleep and fault.
 * Return: the string, to be freed by kfree(); NULL if @uaddr is 0; or an ERR_PTR:
 * -EFAULT, -EINVAL for a longer string, -ENOMEM.
 */
char *kfd_string_user(u64 uaddr)
{
	return uaddr ? strndup_user(u64_to_user_ptr(uaddr), KFAB_NODE_MAX) : NULL;
}

/**
 * kfd_bytes_user() - read private data from the user
 * @uaddr: address of the bytes
 * @len: how many, at most KFAB_CM_DATA_MAX
 *
 * Context: Process, may sleep and fault.
 * Return: the bytes, to be freed by kfree(); NULL if @len is 0; or an ERR_PTR:
 * -EFAULT, -EINVAL, -ENOMEM.
 */
void *kfd_bytes_user(u64 uaddr, u32 len)
{
	if (len > KFAB_CM_DATA_MAX || (len && !uaddr))
		return ERR_PTR(-EINVAL);
	return len ? memdup_user(u64_to_user_ptr(uaddr), len) : NULL;
}

/**
 * kfd_addr_user() - read an address from the user
 * @uaddr: where the address is
 * @len: its bytes, at most KFAB_ADDR_MAX
 *
 * kfi_connect() takes an address without its length, and the provider derives the
 * length from the address. The copy is filled up with zeros to KFAB_ADDR_MAX bytes,
 * so a provider that expects a longer address reads zeros.
 *
 * Context: Process, may sleep and fault.
 * Return: the address, to be freed by kfree(); NULL if @len is 0; or an ERR_PTR:
 * -EFAULT, -EINVAL, -ENOMEM.
 */
void *kfd_addr_user(u64 uaddr, u32 len)
{
	void *addr;

	if (len > KFAB_ADDR_MAX || (len && !uaddr))
		return ERR_PTR(-EINVAL);
	if (!len)
		return NULL;
	addr = kzalloc(KFAB_ADDR_MAX, GFP_KERNEL_ACCOUNT);
	if (!addr)
		return ERR_PTR(-ENOMEM);
	if (copy_from_user(addr, u64_to_user_ptr(uaddr), len)) {
		kfree(addr);
		return ERR_PTR(-EFAULT);
	}
	return addr;
}

/**
 * kfd_addr_put() - write an address, cut to the user's room
 * @to: where to
 * @room: in: bytes at @to; out: bytes of the address
 * @addr: the address
 * @len: its bytes
 *
 * Context: Process, may sleep and fault.
 * Return: 0 or -EFAULT.
 */
int kfd_addr_put(u64 to, u32 *room, const void *addr, size_t len)
{
	if (copy_to_user(u64_to_user_ptr(to), addr, min_t(size_t, len, *room)))
		return -EFAULT;
	*room = len;
	return 0;
}

/**
 * kfd_text_put() - write a text, cut to the user's room and always terminated
 * @to: where to
 * @room: bytes at @to, at least 1
 * @text: the text
 *
 * Context: Process, may sleep and fault.
 * Return: the length written, without the terminating zero; or -EFAULT.
 */
long kfd_text_put(u64 to, u32 room, const char *text)
{
	char __user *uto = u64_to_user_ptr(to);
	const size_t len = strnlen(text, room - 1);

	if (copy_to_user(uto, text, len) || put_user(0, uto + len))
		return -EFAULT;
	return len;
}

/**
 * kfd_err_data_put() - write the data of an error entry, cut to the user's room
 * @to: where to, or 0
 * @size: in: bytes at @to; out: bytes of the data
 * @data: the data, or NULL
 * @len: its bytes
 *
 * Context: Process, may sleep and fault.
 * Return: 0 or -EFAULT.
 */
int kfd_err_data_put(u64 to, u32 *size, const void *data, size_t len)
{
	const size_t fits = to ? min_t(size_t, *size, len) : 0;

	if (!data)
		len = 0;
	else if (copy_to_user(u64_to_user_ptr(to), data, fits))
		return -EFAULT;
	*size = len;
	return 0;
}
