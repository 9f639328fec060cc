// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Memory of kfi_info lists, texts of error numbers, and their numbers for users.
 */
#include <linux/kfabric_values.h>
#include <linux/slab.h>

#include "core.h"

static void kfi_free_one(struct kfi_info *info)
{
	kfree(info->src_addr);
	kfree(info->dest_addr);
	kfree(info->tx_attr);
	kfree(info->rx_attr);
	if (info->ep_attr) {
		kfree(info->ep_attr->auth_key);
		kfree(info->ep_attr);
	}
	if (info->domain_attr) {
		kfree(info->domain_attr->name);
		kfree(info->domain_attr->auth_key);
		kfree(info->domain_attr);
	}
	if (info->fabric_attr) {
		kfree(info->fabric_attr->name);
		kfree(info->fabric_attr->prov_name);
		kfree(info->fabric_attr);
	}
	kfree(info);
}

/**
 * kfi_freeinfo() - free a list of infos
 * @info: the list and all memory that it points to; may be NULL
 *
 * Context: any; takes no lock.
 */
void kfi_freeinfo(struct kfi_info *info)
{
	struct kfi_info *next;

	for (; info; info = next) {
		next = info->next;
		kfi_free_one(info);
	}
}
EXPORT_SYMBOL_GPL(kfi_freeinfo);

/**
 * kfi_allocinfo() - an empty info with all its attributes
 *
 * Context: process, may sleep; takes no lock.
 * Return: zeroed, to be freed by kfi_freeinfo(); NULL without memory.
 */
struct kfi_info *kfi_allocinfo(void)
{
	struct kfi_info *info = kzalloc(sizeof(*info), GFP_KERNEL);

	if (!info)
		return NULL;
	info->tx_attr = kzalloc(sizeof(*info->tx_attr), GFP_KERNEL);
	info->rx_attr = kzalloc(sizeof(*info->rx_attr), GFP_KERNEL);
	info->ep_attr = kzalloc(sizeof(*info->ep_attr), GFP_KERNEL);
	info->domain_attr = kzalloc(sizeof(*info->domain_attr), GFP_KERNEL);
	info->fabric_attr = kzalloc(sizeof(*info->fabric_attr), GFP_KERNEL);
	if (info->tx_attr && info->rx_attr && info->ep_attr &&
	    info->domain_attr && info->fabric_attr)
		return info;
	kfi_freeinfo(info);
	return NULL;
}
EXPORT_SYMBOL_GPL(kfi_allocinfo);

/*
 * Replace a pointer of a shallow copy by a copy of the data that it points to.
 * Return: false without memory; then the pointer is NULL.
 */
static bool kfi_dup_field(void *to, size_t size)
{
	void **field = to;

	if (!*field)
		return true;
	*field = kmemdup(*field, size, GFP_KERNEL);
	return *field;
}

static bool kfi_dup_string(char **field)
{
	return kfi_dup_field(field, *field ? strlen(*field) + 1 : 0);
}

static bool kfi_dup_ep_attr(struct kfi_ep_attr **ep)
{
	if (!*ep)
		return true;
	if (!kfi_dup_field(ep, sizeof(**ep)))
		return false;
	return kfi_dup_field(&(*ep)->auth_key, (*ep)->auth_key_size);
}

/*
 * Clear each pointer before it is copied: until then it points to the original's
 * memory, which a failure here must not free.
 */
static bool kfi_dup_domain_attr(struct kfi_domain_attr **domain)
{
	const struct kfi_domain_attr *old = *domain;
	struct kfi_domain_attr *new;

	if (!old)
		return true;
	if (!kfi_dup_field(domain, sizeof(*old)))
		return false;
	new = *domain;
	new->auth_key = NULL;
	if (!kfi_dup_string(&new->name))
		return false;
	new->auth_key = old->auth_key;
	return kfi_dup_field(&new->auth_key, old->auth_key_size);
}

static bool kfi_dup_fabric_attr(struct kfi_fabric_attr **fabric)
{
	const struct kfi_fabric_attr *old = *fabric;
	struct kfi_fabric_attr *new;

	if (!old)
		return true;
	if (!kfi_dup_field(fabric, sizeof(*old)))
		return false;
	new = *fabric;
	new->prov_name = NULL;
	if (!kfi_dup_string(&new->name))
		return false;
	new->prov_name = old->prov_name;
	return kfi_dup_string(&new->prov_name);
}

/*
 * Each pointer of the shallow copy becomes the copy's own, or NULL where memory ran
 * out, so that the copy can be freed at any point.
 */
static bool kfi_dup_fields(struct kfi_info *info)
{
	bool ok = true;

	ok &= kfi_dup_field(&info->src_addr, info->src_addrlen);
	ok &= kfi_dup_field(&info->dest_addr, info->dest_addrlen);
	ok &= kfi_dup_field(&info->tx_attr, sizeof(*info->tx_attr));
	ok &= kfi_dup_field(&info->rx_attr, sizeof(*info->rx_attr));
	ok &= kfi_dup_ep_attr(&info->ep_attr);
	ok &= kfi_dup_domain_attr(&info->domain_attr);
	ok &= kfi_dup_fabric_attr(&info->fabric_attr);
	return ok;
}

/**
 * kfi_dupinfo() - copy one info
 * @info: copied without its successors; NULL: as kfi_allocinfo()
 *
 * Open objects in it (fabric, domain, handle) are copied as pointers.
 *
 * Context: process, may sleep; takes no lock.
 * Return: to be freed by kfi_freeinfo(); NULL without memory.
 */
struct kfi_info *kfi_dupinfo(const struct kfi_info *info)
{
	struct kfi_info *dup;

	if (!info)
		return kfi_allocinfo();
	dup = kmemdup(info, sizeof(*info), GFP_KERNEL);
	if (!dup)
		return NULL;
	dup->next = NULL;
	if (kfi_dup_fields(dup))
		return dup;
	kfi_freeinfo(dup);
	return NULL;
}
EXPORT_SYMBOL_GPL(kfi_dupinfo);

static const struct {
	int number;
	const char *text;
} kfi_errors[] = {
	{ KFI_SUCCESS, "Success" },
	{ KFI_ENOENT, "No such object" },
	{ KFI_EIO, "Input/output error" },
	{ KFI_E2BIG, "Argument too big" },
	{ KFI_EBADF, "Bad handle" },
	{ KFI_EAGAIN, "Nothing there, try again" },
	{ KFI_ENOMEM, "Out of memory" },
	{ KFI_EACCES, "Permission denied" },
	{ KFI_EBUSY, "Object is in use" },
	{ KFI_ENODEV, "No such device" },
	{ KFI_EINVAL, "Invalid argument" },
	{ KFI_EMFILE, "Too many open objects" },
	{ KFI_ENOSPC, "No space left" },
	{ KFI_ENOSYS, "Not implemented" },
	{ KFI_ENOMSG, "No message of that kind" },
	{ KFI_ENODATA, "No data available" },
	{ KFI_EMSGSIZE, "Message too long" },
	{ KFI_ENOPROTOOPT, "No such option" },
	{ KFI_EOPNOTSUPP, "Operation not supported" },
	{ KFI_EADDRINUSE, "Address is in use" },
	{ KFI_EADDRNOTAVAIL, "Address is not available" },
	{ KFI_ENETDOWN, "Network is down" },
	{ KFI_ENETUNREACH, "Network is unreachable" },
	{ KFI_ECONNABORTED, "Connection aborted" },
	{ KFI_ECONNRESET, "Connection reset by the peer" },
	{ KFI_EISCONN, "Already connected" },
	{ KFI_ENOTCONN, "Not connected" },
	{ KFI_ESHUTDOWN, "Endpoint was shut down" },
	{ KFI_ETIMEDOUT, "Timed out" },
	{ KFI_ECONNREFUSED, "Connection refused" },
	{ KFI_EHOSTUNREACH, "Host is unreachable" },
	{ KFI_EALREADY, "Already done or under way" },
	{ KFI_EINPROGRESS, "In progress" },
	{ KFI_EREMOTEIO, "Error at the remote side" },
	{ KFI_ECANCELED, "Cancelled" },
	{ KFI_EKEYREJECTED, "Key was rejected" },
	/* Without a KFI_ name, but the calls return them. */
	{ EINTR, "Interrupted" },
	{ EEXIST, "Already there" },
	{ EFAULT, "Bad address" },
	{ KFI_EOTHER, "Unspecified error" },
	{ KFI_ETOOSMALL, "Buffer too small" },
	{ KFI_EOPBADSTATE, "Object is not in the right state" },
	{ KFI_EAVAIL, "An error entry is to be read first" },
	{ KFI_EBADFLAGS, "Flags not supported" },
	{ KFI_ENOEQ, "No event queue" },
	{ KFI_EDOMAIN, "Objects of different domains" },
	{ KFI_ENOCQ, "No completion queue" },
	{ KFI_ECRC, "Checksum error" },
	{ KFI_ETRUNC, "Truncated" },
	{ KFI_ENOKEY, "No such key, or key in use" },
	{ KFI_ENOAV, "No address vector" },
	{ KFI_EOVERRUN, "Queue was overrun" },
};

/**
 * kfi_strerror() - text of an error number
 * @errnum: positive
 *
 * Context: any; takes no lock.
 * Return: a constant; "Unspecified error" for numbers without a name here.
 */
const char *kfi_strerror(int errnum)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kfi_errors); i++)
		if (kfi_errors[i].number == errnum)
			return kfi_errors[i].text;
	return "Unspecified error";
}
EXPORT_SYMBOL_GPL(kfi_strerror);

/**
 * struct kfi_user_errno - an error that Linux has no number for
 * @kfabric: its number in the API of the kernel
 * @user: the number that users get; KFAB_... of uapi/linux/kfabric_values.h
 */
struct kfi_user_errno {
	int kfabric;
	int user;
};

static const struct kfi_user_errno kfi_user_errnos[] = {
	{ KFI_ETOOSMALL, KFAB_ETOOSMALL },
	{ KFI_EOPBADSTATE, KFAB_EOPBADSTATE },
	{ KFI_EAVAIL, KFAB_EAVAIL },
	{ KFI_EBADFLAGS, KFAB_EBADFLAGS },
	{ KFI_ENOEQ, KFAB_ENOEQ },
	{ KFI_EDOMAIN, KFAB_EDOMAIN },
	{ KFI_ENOCQ, KFAB_ENOCQ },
	{ KFI_ENOKEY, KFAB_ENOKEY },
	{ KFI_ENOAV, KFAB_ENOAV },
	{ KFI_EOVERRUN, KFAB_EOVERRUN },
};

/**
 * kfi_errno_to_user() - the number of an error for user space
 * @errnum: positive, of the kernel's API or of a device's driver
 *
 * Context: any; takes no lock.
 * Return: a number that every C library has a text for; EIO if there is none.
 */
int kfi_errno_to_user(int errnum)
{
	size_t i;

	switch (errnum) {
	case KFI_ENOSYS:
	case ENOTSUPP:
		errnum = EOPNOTSUPP;
		break;
	case KFI_ETRUNC:
		errnum = EMSGSIZE;
		break;
	}
	for (i = 0; i < ARRAY_SIZE(kfi_user_errnos); i++)
		if (kfi_user_errnos[i].kfabric == errnum)
			return kfi_user_errnos[i].user;
	return errnum < KFI_ERRNO_OFFSET ? errnum : EIO;
}
EXPORT_SYMBOL_GPL(kfi_errno_to_user);

/**
 * kfi_errno_from_user() - undo kfi_errno_to_user(), to find the text of a number
 * @errnum: the user's number, which may be any
 *
 * Context: any; takes no lock.
 * Return: the number that the kernel's API has for it.
 */
int kfi_errno_from_user(int errnum)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kfi_user_errnos); i++)
		if (kfi_user_errnos[i].user == errnum)
			return kfi_user_errnos[i].kfabric;
	return errnum;
}
EXPORT_SYMBOL_GPL(kfi_errno_from_user);
