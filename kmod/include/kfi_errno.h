/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Error numbers of the kfabric API.
 *
 * The constants are positive. Calls return them negated. The err field of an
 * event or completion holds the positive value. Only the Linux errors that the
 * API documents have a KFI_ name, but a call may return any other -Exxx.
 */
#ifndef _KFI_ERRNO_H_
#define _KFI_ERRNO_H_

#include <linux/errno.h>

#define KFI_ERRNO_OFFSET 256

enum {
	KFI_SUCCESS		= 0,

	/* The same numbers as in Linux. */
	KFI_ENOENT		= ENOENT,
	KFI_EIO			= EIO,
	KFI_E2BIG		= E2BIG,
	KFI_EBADF		= EBADF,
	KFI_EAGAIN		= EAGAIN,
	KFI_ENOMEM		= ENOMEM,
	KFI_EACCES		= EACCES,
	KFI_EBUSY		= EBUSY,
	KFI_ENODEV		= ENODEV,
	KFI_EINVAL		= EINVAL,
	KFI_EMFILE		= EMFILE,
	KFI_ENOSPC		= ENOSPC,
	KFI_ENOSYS		= ENOSYS,
	KFI_ENOMSG		= ENOMSG,
	KFI_ENODATA		= ENODATA,
	KFI_EMSGSIZE		= EMSGSIZE,
	KFI_ENOPROTOOPT		= ENOPROTOOPT,
	KFI_EOPNOTSUPP		= EOPNOTSUPP,
	KFI_EADDRINUSE		= EADDRINUSE,
	KFI_EADDRNOTAVAIL	= EADDRNOTAVAIL,
	KFI_ENETDOWN		= ENETDOWN,
	KFI_ENETUNREACH		= ENETUNREACH,
	KFI_ECONNABORTED	= ECONNABORTED,
	KFI_ECONNRESET		= ECONNRESET,
	KFI_EISCONN		= EISCONN,
	KFI_ENOTCONN		= ENOTCONN,
	KFI_ESHUTDOWN		= ESHUTDOWN,
	KFI_ETIMEDOUT		= ETIMEDOUT,
	KFI_ECONNREFUSED	= ECONNREFUSED,
	KFI_EHOSTUNREACH	= EHOSTUNREACH,
	KFI_EALREADY		= EALREADY,
	KFI_EINPROGRESS		= EINPROGRESS,
	KFI_EREMOTEIO		= EREMOTEIO,
	KFI_ECANCELED		= ECANCELED,
	KFI_EKEYREJECTED	= EKEYREJECTED,

	/* Errors without a number in Linux. */
	KFI_EOTHER		= KFI_ERRNO_OFFSET,	/* none of the others */
	KFI_ETOOSMALL,		/* buffer or option length too small */
	KFI_EOPBADSTATE,	/* object is in the wrong state */
	KFI_EAVAIL,		/* read the error entry first */
	KFI_EBADFLAGS,		/* flag not supported */
	KFI_ENOEQ,		/* needs an event queue */
	KFI_EDOMAIN,		/* objects belong to different domains */
	KFI_ENOCQ,		/* needs a completion queue */
	KFI_ECRC,		/* checksum error */
	KFI_ETRUNC,		/* data was truncated */
	KFI_ENOKEY,		/* key is unknown or already in use */
	KFI_ENOAV,		/* needs an address vector */
	KFI_EOVERRUN,		/* queue overrun */
	FI_ERRNO_MAX		/* one past the last; the API's spelling */
};

const char *kfi_strerror(int errnum);

#endif /* _KFI_ERRNO_H_ */
