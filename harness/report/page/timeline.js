// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
// Moves and zooms the timeline. The times of the shapes are data attributes, in microseconds.
// The page has the shapes of the first view; the others are added when the view first moves.
"use strict";
(() => {
	const svg = document.getElementById("timeline");
	if (!svg)
		return;
	const NARROW = 640, PRINTED = 760;
	const number = name => Number(svg.dataset[name]);
	const whole = {from: number("from"), to: number("to")};
	const first = {from: number("firstFrom"), to: number("firstTo")};
	const least = 0.05; // microseconds in sight
	const view = {...first};
	const said = document.getElementById("view");
	const ticks = [...svg.querySelectorAll(".tick")];
	const labels = [...svg.querySelectorAll("text[data-lane], line[data-lane]")];
	const top = number("top"), wideLane = number("lane"), lanes = number("lanes");
	let shapes = [], left = number("left"), width = 0, lane = wideLane, drop = 0;

	function shapeOf(node) {
		const data = node.dataset, row = Number(data.lane);
		return {
			node, row, kind: node.tagName, from: Number(data.from ?? data.at),
			to: Number(data.to ?? whole.to), target: Number(data.toLane),
			down: Number(node.getAttribute("y")) - top - wideLane * row,
			special: /suspect|never/.test(node.getAttribute("class")),
		};
	}

	function collect(root) {
		shapes.push(...[...root.querySelectorAll("[data-from], [data-at]")].map(shapeOf));
		shapes.sort((a, b) => a.from - b.from);
	}

	function takeRest() {
		const rest = document.getElementById("timeline-rest");
		if (!rest)
			return;
		collect(rest.content);
		for (const group of rest.content.querySelectorAll("g"))
			svg.querySelector(`g[data-layer=${group.dataset.layer}]`).append(...group.childNodes);
		rest.remove();
		layout();
	}

	const x = us => left + (us - view.from) / (view.to - view.from) * width;
	const clamp = at => Math.min(left + width, Math.max(left, at));
	const base = row => top + lane * row + drop;
	const middle = row => base(row) + wideLane / 2;

	function words(us) {
		const span = view.to - view.from;
		if (span > 2e6)
			return (us / 1e6).toFixed(3) + " s";
		return span > 2e3 ? (us / 1e3).toFixed(3) + " ms" : us.toFixed(3) + " µs";
	}

	// Of shapes of one kind that are narrower than a pixel, each pixel of a lane shows one. Arrows
	// cross all lanes: of those, a few pixels show one.
	function covered(shape, pixels) {
		if (shape.special || x(shape.to) - x(shape.from) >= 1)
			return false;
		const arrow = shape.kind === "path", at = Math.floor(x(shape.from) / (arrow ? 4 : 1));
		const key = arrow ? `arrow ${at}` : `${shape.kind} ${shape.row} ${shape.down} ${at}`;
		if (pixels.has(key))
			return true;
		pixels.add(key);
		return false;
	}

	function place(shape, pixels) {
		const {node, from, to} = shape;
		const hidden = to < view.from || from > view.to || covered(shape, pixels);
		if (hidden !== shape.hidden)
			node.style.display = hidden ? "none" : "";
		shape.hidden = hidden;
		if (hidden)
			return;
		if (shape.kind === "circle") {
			node.setAttribute("cx", x(from));
		} else if (shape.kind === "polygon") {
			node.setAttribute("transform", `translate(${x(from)} ${middle(shape.row)})`);
		} else if (shape.kind === "path") {
			node.setAttribute("d", `M${x(from)} ${middle(shape.row)} L${x(to)} ${middle(shape.target)}`);
		} else {
			const a = clamp(x(from));
			node.setAttribute("x", a);
			node.setAttribute("width", Math.max(1, clamp(x(to)) - a));
		}
	}

	function draw() {
		const pixels = new Set();
		for (const shape of shapes)
			place(shape, pixels);
		ticks.forEach((tick, i) => {
			tick.textContent = words(view.from + (view.to - view.from) * i / (ticks.length - 1));
		});
		svg.dataset.viewFrom = view.from;
		svg.dataset.viewTo = view.to;
		said.textContent = `${words(view.from)} to ${words(view.to)}`;
	}

	// One unit is one pixel, so that text keeps its size. A narrow page has its names above the bars.
	function layout(wanted) {
		const size = wanted || svg.parentNode.clientWidth || PRINTED, narrow = size < NARROW;
		left = narrow ? 8 : number("left");
		width = size - left - (narrow ? 8 : number("right"));
		drop = narrow ? 16 : 0;
		lane = wideLane + drop;
		svg.setAttribute("viewBox", `0 0 ${size} ${top + lane * lanes + 4}`);
		svg.dataset.left = left;
		svg.dataset.width = width;
		for (const node of labels) {
			const y = top + lane * Number(node.dataset.lane);
			if (node.tagName === "text") {
				node.setAttribute("y", y + 14);
			} else {
				node.setAttribute("y1", y + lane);
				node.setAttribute("y2", y + lane);
				node.setAttribute("x2", size);
			}
		}
		ticks.forEach((tick, i) => {
			tick.setAttribute("x", left + width * i / (ticks.length - 1));
			tick.style.display = narrow && i % 2 ? "none" : "";
		});
		for (const shape of shapes) {
			if (shape.kind === "rect")
				shape.node.setAttribute("y", base(shape.row) + shape.down);
			else if (shape.kind === "circle")
				shape.node.setAttribute("cy", middle(shape.row));
		}
		draw();
	}

	function show(from, to) {
		takeRest();
		const span = Math.max(least, Math.min(to - from, whole.to - whole.from));
		const centre = (from + to) / 2;
		view.from = Math.min(Math.max(whole.from, centre - span / 2), whole.to - span);
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
	document.addEventListener("click", event => {
		const {act, showFrom, showTo} = event.target.dataset ?? {};
		if (act)
			acts[act]();
		if (showFrom) {
			show(Number(showFrom), Number(showTo));
			svg.parentNode.scrollIntoView({block: "nearest"});
		}
	});
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
	let held = null, next = null;
	svg.addEventListener("pointerdown", event => {
		held = {at: share(event), from: view.from, to: view.to};
		svg.setPointerCapture(event.pointerId);
	});
	svg.addEventListener("pointermove", event => {
		if (!held)
			return;
		const by = (held.at - share(event)) * (held.to - held.from);
		if (!next) // at most one picture for each frame of the screen
			requestAnimationFrame(() => { show(...next); next = null; });
		next = [held.from + by, held.to + by];
	});
	for (const end of ["pointerup", "pointercancel"])
		svg.addEventListener(end, () => { held = null; });

	collect(svg);
	layout();
	const paper = matchMedia("print");
	const fit = () => layout(paper.matches ? PRINTED : 0);
	addEventListener("resize", fit);
	paper.addEventListener("change", fit);
	addEventListener("beforeprint", () => layout(PRINTED));
	addEventListener("afterprint", () => layout());
})();
