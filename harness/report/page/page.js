// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
// Moves and zooms the timeline. The shapes are in the page already; their times are
// data attributes, in microseconds.
"use strict";
(() => {
	const svg = document.getElementById("timeline");
	if (!svg)
		return;
	const left = Number(svg.dataset.left), width = Number(svg.dataset.width);
	const whole = {from: Number(svg.dataset.from), to: Number(svg.dataset.to)};
	const least = 0.05; // microseconds in sight
	const view = {...whole};
	const said = document.getElementById("view");
	const shapes = [...svg.querySelectorAll("[data-from], [data-at]")].map(node => ({
		node, kind: node.tagName, from: Number(node.dataset.from ?? node.dataset.at),
		to: Number(node.dataset.to ?? whole.to), y: Number(node.dataset.y), lane: Number(node.dataset.lane),
	}));
	const ticks = [...svg.querySelectorAll(".tick")];

	const x = us => left + (us - view.from) / (view.to - view.from) * width;
	const clamp = at => Math.min(left + width, Math.max(left, at));

	function words(us) {
		const span = view.to - view.from;
		if (span > 2e6)
			return (us / 1e6).toFixed(3) + " s";
		return span > 2e3 ? (us / 1e3).toFixed(3) + " ms" : us.toFixed(3) + " µs";
	}

	function place(shape) {
		const {node, from, to} = shape;
		const hidden = to < view.from || from > view.to;
		node.style.display = hidden ? "none" : "";
		if (hidden)
			return;
		if (shape.kind === "circle") {
			node.setAttribute("cx", x(from));
		} else if (shape.kind === "path") {
			const a = x(from), b = x(to);
			node.setAttribute("d", `M${a} ${shape.y} L${b} ${shape.lane}`);
		} else {
			const a = clamp(x(from));
			node.setAttribute("x", a);
			node.setAttribute("width", Math.max(1, clamp(x(to)) - a));
		}
	}

	function draw() {
		shapes.forEach(place);
		ticks.forEach((tick, i) => {
			tick.textContent = words(view.from + (view.to - view.from) * i / (ticks.length - 1));
		});
		svg.dataset.viewFrom = view.from;
		svg.dataset.viewTo = view.to;
		said.textContent = `${words(view.from)} to ${words(view.to)}`;
	}

	function show(from, to) {
		const span = Math.max(least, Math.min(to - from, whole.to - whole.from));
		const middle = (from + to) / 2;
		view.from = Math.min(Math.max(whole.from, middle - span / 2), whole.to - span);
		view.to = view.from + span;
		draw();
	}

	function zoom(factor, share = 0.5) {
		const span = view.to - view.from, at = view.from + span * share;
		const next = Math.max(least, Math.min(span * factor, whole.to - whole.from));
		show(at - next * share, at + next * (1 - share));
	}

	function move(share) {
		const by = (view.to - view.from) * share;
		show(view.from + by, view.to + by);
	}

	const acts = {
		in: () => zoom(0.5), out: () => zoom(2), left: () => move(-0.3), right: () => move(0.3),
		all: () => show(whole.from, whole.to),
	};
	const keys = {"+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", "0": "all"};

	document.querySelectorAll("button[data-act]").forEach(button =>
		button.addEventListener("click", acts[button.dataset.act]));
	document.querySelectorAll("button[data-show-from]").forEach(button =>
		button.addEventListener("click", () => {
			show(Number(button.dataset.showFrom), Number(button.dataset.showTo));
			svg.scrollIntoView({block: "nearest"});
		}));
	svg.addEventListener("keydown", event => {
		if (event.key in keys) {
			acts[keys[event.key]]();
			event.preventDefault();
		}
	});

	const share = event => {
		const box = svg.getBoundingClientRect();
		const unit = box.width / svg.viewBox.baseVal.width;
		return ((event.clientX - box.left) / unit - left) / width;
	};
	svg.addEventListener("wheel", event => {
		if (!event.ctrlKey && !event.shiftKey)
			return; // plain scrolling stays the page's
		event.preventDefault();
		zoom(event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, share(event));
	}, {passive: false});
	let held = null;
	svg.addEventListener("pointerdown", event => {
		held = {at: share(event), from: view.from, to: view.to};
		svg.setPointerCapture(event.pointerId);
	});
	svg.addEventListener("pointermove", event => {
		if (!held)
			return;
		const by = (held.at - share(event)) * (held.to - held.from);
		show(held.from + by, held.to + by);
	});
	svg.addEventListener("pointerup", () => { held = null; });
	svg.addEventListener("pointercancel", () => { held = null; });
	show(Number(svg.dataset.firstFrom), Number(svg.dataset.firstTo));
})();
