(() => {
  const body = document.querySelector("tbody"), rows = [...body.rows];
  const [tools, search, order, shown] = [".tools", "#search", "#order", "#shown"].map(
    name => document.querySelector(name));
  const cell = (row, column) => row.cells[column].textContent;
  const texts = rows.map(row => [1, 3, 4, 5].map(column => cell(row, column)).join(" ").toLowerCase());
  const {compare} = new Intl.Collator(undefined, {numeric: true});
  const by = (column, sign = 1) => (a, b) => sign * compare(cell(a, column), cell(b, column));
  const orders = {position: by(0), name: by(1), most: by(2, -1), fewest: by(2), first: by(3), truncated: by(4, -1),
    top: by(5)};
  const find = () => {
    const words = search.value.toLowerCase().split(/\s+/);
    let count = 0;
    rows.forEach((row, i) => { count += !(row.hidden = !words.every(word => texts[i].includes(word))); });
    shown.textContent = `${count} of ${rows.length} shown`;
  };
  search.addEventListener("input", find);
  order.addEventListener("change", () => body.append(...[...rows].sort(orders[order.value])));
  tools.hidden = false;
  find();
})();
