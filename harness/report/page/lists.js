// The lists of the page: what is shown on demand, the order and choice of queues, links, print.
(() => {
	const byId = id => document.getElementById(id);

	// Elements that the page holds in a template: "show 480 more".
	function takeMore(button) {
		const template = button.nextElementSibling, into = button.dataset.more;
		const places = document.querySelectorAll(into);
		places[places.length - 1].append(...template.content.querySelector(into.replace(/^#\w+ /, "")).childNodes);
		button.parentNode.remove();
	}

	const takeAll = into => document.querySelectorAll(`button[data-more="${into}"]`).forEach(takeMore);

	// The lines of a group of queues. They follow it wherever sorting puts it.
	const members = new Map();
	function toggle(button) {
		const row = button.closest("tr"), name = button.dataset.members;
		const shown = button.getAttribute("aria-expanded") === "true";
		if (!members.has(name)) {
			const template = [...document.querySelectorAll("template[data-members-of]")]
				.find(node => node.dataset.membersOf === name);
			members.set(name, [...template.content.querySelectorAll("tr")]);
		}
		button.setAttribute("aria-expanded", String(!shown));
		if (shown)
			members.get(name).forEach(line => line.remove());
		else
			row.after(...members.get(name));
	}

	const table = byId("queues"), search = byId("search"), filter = byId("filter"), found = byId("found");
	const groups = () => [...table.tBodies[0].rows].filter(row => row.className !== "member");
	const cell = (row, column) => row.querySelector(`td[data-name="${column}"]`);
	const followers = row => members.get(row.dataset.group)?.filter(line => line.isConnected) ?? [];

	function wanted(row, text, what) {
		if (!row.cells[0].textContent.toLowerCase().includes(text))
			return false;
		if (!what)
			return true;
		return what === "faulty" ? "faulty" in row.dataset : Number(cell(row, what).dataset.value) > 0;
	}

	function choose() {
		takeAll("#queues tbody");
		const text = search.value.trim().toLowerCase();
		let count = 0;
		for (const row of groups()) {
			const hidden = !wanted(row, text, filter.value);
			for (const line of [row, ...followers(row)])
				line.hidden = hidden;
			count += hidden ? 0 : 1;
		}
		found.textContent = text || filter.value ? `${count} of ${groups().length}` : "";
	}

	function sort(head) {
		takeAll("#queues tbody");
		const column = head.dataset.column;
		const down = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") !== "descending" : Boolean(column);
		table.querySelectorAll("thead th").forEach(other => other.removeAttribute("aria-sort"));
		head.setAttribute("aria-sort", down ? "descending" : "ascending");
		const key = row => column ? Number(cell(row, column).dataset.value) : row.cells[0].textContent;
		const order = (a, b) => column ? key(a) - key(b) : key(a).localeCompare(key(b), "en", {numeric: true});
		const rows = groups().sort((a, b) => down ? order(b, a) : order(a, b));
		table.tBodies[0].append(...rows.flatMap(row => [row, ...followers(row)]));
	}

	if (table && search) {
		for (const head of table.tHead.rows[0].cells) {
			const button = document.createElement("button");
			button.type = "button";
			button.append(...head.childNodes);
			button.addEventListener("click", () => sort(head));
			head.append(button);
		}
		table.classList.add("sortable");
		search.addEventListener("input", choose);
		filter.addEventListener("change", choose);
	}

	document.addEventListener("click", event => {
		const button = event.target.closest("button");
		if (button?.dataset.more)
			takeMore(button);
		if (button?.dataset.members)
			toggle(button);
	});

	// A link to a finding shows its story and its moment, wherever it is.
	function follow() {
		if (!/^#finding-\d+$/.test(location.hash))
			return;
		const id = location.hash.slice(1);
		if (!byId(id))
			takeAll("#findings");
		const finding = byId(id), story = finding?.querySelector("details");
		if (!finding)
			return;
		if (story)
			story.open = true;
		finding.querySelector("button[data-show-from]")?.click();
		finding.scrollIntoView();
	}
	addEventListener("hashchange", follow);
	follow();

	// Paper has no buttons: it shows all stories that are on the page.
	let closed = [];
	function print(on) {
		if (on)
			closed.push(...document.querySelectorAll("details:not([open])"));
		for (const details of closed)
			details.open = on;
		if (!on)
			closed = [];
	}
	matchMedia("print").addEventListener("change", event => print(event.matches));
	addEventListener("beforeprint", () => print(true));
	addEventListener("afterprint", () => print(false));
})();
