// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Runs the inlines of the public headers on the host. test_headers.py supplies
 * the little that they need of the kernel, and forward.h: one test for every
 * inline that only jumps through a slot. The others are below.
 */
#include <stdio.h>
#include <stdlib.h>

#include <kfi_cm.h>
#include <kfi_prov.h>
#include <kfi_rma.h>
#include <kfi_tagged.h>
#include <kfi_trigger.h>

static uintptr_t seen[16];
static int nr_seen;
static int nr_waits;

static void forget(void)
{
	nr_seen = 0;
}

static void see(uintptr_t value)
{
	if (nr_seen < 16)
		seen[nr_seen] = value;
	nr_seen++;
}

/* The object came first, and argument i was 17 * i. */
static bool seen_in_order(int count, uintptr_t object)
{
	int i;

	if (nr_seen != count || seen[0] != object)
		return false;
	for (i = 1; i < count; i++)
		if (seen[i] != (uintptr_t)(17 * i))
			return false;
	return true;
}

static void expect(const char *what, bool holds)
{
	if (holds)
		return;
	fprintf(stderr, "wrong: %s\n", what);
	exit(1);
}

void wait_for_completion(struct completion *c)
{
	(void)c;
	nr_waits++;
}

#include "forward.h"

/* What reached the control slot. */
static struct kfid *control_fid;
static int control_command;
static void *control_arg;
static union {
	struct kfi_alias alias;
	struct kfi_mr_raw_attr raw;
	struct kfi_mr_map_raw map;
	struct kfi_mr_modify modify;
	uint64_t key;
} control_copy;

static struct kfid_ep alias_of_ep;

static int control(struct kfid *fid, int command, void *arg)
{
	control_fid = fid;
	control_command = command;
	control_arg = arg;
	switch (command) {
	case KFI_ALIAS:
		control_copy.alias = *(struct kfi_alias *)arg;
		*control_copy.alias.fid = &alias_of_ep.fid;
		break;
	case KFI_GET_RAW_MR:
		control_copy.raw = *(struct kfi_mr_raw_attr *)arg;
		break;
	case KFI_MAP_RAW_MR:
		control_copy.map = *(struct kfi_mr_map_raw *)arg;
		break;
	case KFI_REFRESH:
		control_copy.modify = *(struct kfi_mr_modify *)arg;
		break;
	case KFI_UNMAP_KEY:
		control_copy.key = *(uint64_t *)arg;
		break;
	}
	return command == KFI_ENABLE ? -KFI_ENOCQ : 0;
}

static int control_fails(struct kfid *fid, int command, void *arg)
{
	(void)fid, (void)command, (void)arg;
	return -KFI_ENOSYS;
}

static struct kfi_ops fid_ops = { .size = sizeof(fid_ops), .control = control };
static struct kfi_ops failing = { .size = sizeof(failing), .control = control_fails };

static bool controlled(struct kfid *fid, int command)
{
	return control_fid == fid && control_command == command;
}

static void aliases(void)
{
	struct kfid_ep ep = { .fid.ops = &fid_ops };
	struct kfid_ep *alias = NULL;
	struct kfid *fid = NULL;

	expect("kfi_alias: result", kfi_alias(&ep.fid, &fid, KFI_MORE) == 0);
	expect("kfi_alias: command", controlled(&ep.fid, KFI_ALIAS));
	expect("kfi_alias: argument", control_copy.alias.fid == &fid &&
	       control_copy.alias.flags == KFI_MORE);
	expect("kfi_ep_alias: result", kfi_ep_alias(&ep, &alias, KFI_INJECT) == 0);
	expect("kfi_ep_alias: alias", alias == &alias_of_ep &&
	       control_copy.alias.flags == KFI_INJECT);

	ep.fid.ops = &failing;
	alias = NULL;
	expect("kfi_ep_alias: error", kfi_ep_alias(&ep, &alias, 0) == -KFI_ENOSYS && !alias);
}

static void raw_keys(void)
{
	struct kfid_mr mr = { .fid.ops = &fid_ops };
	struct kfid_domain domain = { .fid.ops = &fid_ops };
	uint64_t base, key;
	uint8_t raw[16];
	size_t size;

	expect("kfi_mr_raw_attr: result", !kfi_mr_raw_attr(&mr, &base, raw, &size, 5));
	expect("kfi_mr_raw_attr: command", controlled(&mr.fid, KFI_GET_RAW_MR));
	expect("kfi_mr_raw_attr: argument", control_copy.raw.base_addr == &base &&
	       control_copy.raw.raw_key == raw && control_copy.raw.key_size == &size &&
	       control_copy.raw.flags == 5);

	expect("kfi_mr_map_raw: result", !kfi_mr_map_raw(&domain, 6, raw, 16, &key, 7));
	expect("kfi_mr_map_raw: command", controlled(&domain.fid, KFI_MAP_RAW_MR));
	expect("kfi_mr_map_raw: argument", control_copy.map.base_addr == 6 &&
	       control_copy.map.raw_key == raw && control_copy.map.key_size == 16 &&
	       control_copy.map.key == &key && control_copy.map.flags == 7);

	expect("kfi_mr_unmap_key: result", !kfi_mr_unmap_key(&domain, 1ULL << 60));
	expect("kfi_mr_unmap_key: command", controlled(&domain.fid, KFI_UNMAP_KEY));
	expect("kfi_mr_unmap_key: argument", control_copy.key == 1ULL << 60);
}

static void regions(void)
{
	struct kfid_mr mr = { .fid.ops = &fid_ops, .mem_desc = &mr, .key = 1ULL << 61 };
	const struct kvec *iov = (const struct kvec *)&mr;

	expect("kfi_mr_desc", kfi_mr_desc(&mr) == &mr);
	expect("kfi_mr_key", kfi_mr_key(&mr) == 1ULL << 61);
	expect("kfi_mr_refresh: result", !kfi_mr_refresh(&mr, iov, 3, 9));
	expect("kfi_mr_refresh: command", controlled(&mr.fid, KFI_REFRESH));
	expect("kfi_mr_refresh: argument", control_copy.modify.flags == 9 &&
	       control_copy.modify.attr.mr_iov == iov && control_copy.modify.attr.iov_count == 3);
	expect("kfi_mr_refresh: the rest is 0", !control_copy.modify.attr.type &&
	       !control_copy.modify.attr.access && !control_copy.modify.attr.auth_key);
	expect("kfi_mr_enable: result", kfi_mr_enable(&mr) == -KFI_ENOCQ);
	expect("kfi_mr_enable: command", controlled(&mr.fid, KFI_ENABLE) && !control_arg);
}

static void endpoints(void)
{
	struct kfid_ep ep = { .fid.ops = &fid_ops };

	expect("kfi_enable: result", kfi_enable(&ep) == -KFI_ENOCQ);
	expect("kfi_enable: command", controlled(&ep.fid, KFI_ENABLE) && !control_arg);
	/* A passive endpoint's name goes through the slots of an endpoint. */
	expect("kfid_pep: cm", offsetof(struct kfid_pep, cm) == offsetof(struct kfid_ep, cm));
}

static void arithmetic(void)
{
	struct kfid_mc mc = { .addr = 1ULL << 62 };

	expect("kfi_mc_addr", kfi_mc_addr(&mc) == 1ULL << 62);
	expect("kfi_rx_addr: low", kfi_rx_addr(0x1234, 0, 8) == 0x1234);
	expect("kfi_rx_addr: high", kfi_rx_addr(0x1234, 0xab, 8) == 0xab00000000001234ULL);
	expect("kfi_rx_addr: one bit", kfi_rx_addr(1, 1, 1) == 0x8000000000000001ULL);
	expect("kfi_tc_dscp_set", kfi_tc_dscp_set(46) == 0x12e);
	expect("kfi_tc_dscp_get", kfi_tc_dscp_get(0x12e) == 46);
	expect("kfi_tc_dscp_get: label", kfi_tc_dscp_get(KFI_TC_BULK_DATA) == 0);
}

/* Tables of providers that were compiled before the slots came. */
static void guarded(void)
{
	struct kfi_ops_cntr cntr_ops = { .size = offsetof(struct kfi_ops_cntr, adderr) };
	struct kfi_ops_domain domain_ops = {
		.size = offsetof(struct kfi_ops_domain, query_atomic),
	};
	struct kfi_ops_cm cm_ops = { .size = offsetof(struct kfi_ops_cm, join) };
	struct kfid_domain domain = { .ops = &domain_ops };
	struct kfid_cntr cntr = { .ops = &cntr_ops };
	struct kfid_ep ep = { .cm = &cm_ops };
	int round;

	/* At first the slot is beyond the table and holds garbage; then it is NULL. */
	cntr_ops.adderr = (void *)16;
	cntr_ops.seterr = (void *)16;
	domain_ops.query_atomic = (void *)16;
	cm_ops.join = (void *)16;
	for (round = 0; round < 2; round++) {
		expect("kfi_cntr_adderr: guard", kfi_cntr_adderr(&cntr, 1) == -KFI_ENOSYS);
		expect("kfi_cntr_seterr: guard", kfi_cntr_seterr(&cntr, 1) == -KFI_ENOSYS);
		expect("kfi_query_atomic: guard",
		       kfi_query_atomic(&domain, 0, 0, NULL, 0) == -KFI_ENOSYS);
		expect("kfi_join: guard", kfi_join(&ep, NULL, 0, NULL, NULL) == -KFI_ENOSYS);
		cntr_ops = (struct kfi_ops_cntr){ .size = sizeof(cntr_ops) };
		domain_ops = (struct kfi_ops_domain){ .size = sizeof(domain_ops) };
		cm_ops = (struct kfi_ops_cm){ .size = sizeof(cm_ops) };
	}
}

static void references(void)
{
	struct kfi_provider provider = { .ref_cnt = { 1 } };
	struct kfid fid;

	kfi_ref_provider(&provider);
	kfi_deref_provider(&provider);
	expect("kfi_deref_provider: not the last", !provider.comp.done);
	kfi_deref_provider(&provider);
	expect("kfi_deref_provider: the last", provider.comp.done == 1);

	kfi_init_id(&fid);
	kfi_ref_id(&fid);
	kfi_deref_id(&fid);
	expect("kfi_deref_id: not the last", !fid.comp.done && fid.ref_cnt.counter == 1);
	kfi_close_id(&fid);
	expect("kfi_close_id", fid.comp.done == 1 && nr_waits == 1);
}

int main(void)
{
	int forwarded = forward_all();

	aliases();
	raw_keys();
	regions();
	endpoints();
	arithmetic();
	guarded();
	references();
	printf("%d\n", forwarded);
	return 0;
}
