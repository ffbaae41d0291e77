// Rows of numbers, kept as typed arrays, one a column. When there are too many, the oldest quarter goes.

const FIRST_ROOM = 256;

export class Columns {
  constructor(names, limit) {
    this.names = names;
    this.limit = limit;
    this.length = 0;
    this.dropped = 0; // rows that stood before row 0
    this.of = {};
    for (const name of names) this.of[name] = new Float64Array(FIRST_ROOM);
  }

  /** `row` holds a number for each name; what it lacks becomes NaN. */
  push(row) {
    if (this.length === this.limit) this.#dropQuarter();
    if (this.length === this.of[this.names[0]].length) this.#grow();
    for (const name of this.names) {
      const value = row[name];
      this.of[name][this.length] = typeof value === "number" ? value : NaN;
    }
    this.length += 1;
  }

  #grow() {
    for (const name of this.names) {
      const larger = new Float64Array(Math.min(this.limit, 2 * this.length));
      larger.set(this.of[name]);
      this.of[name] = larger;
    }
  }

  #dropQuarter() {
    const gone = Math.ceil(this.limit / 4);
    for (const name of this.names) this.of[name].copyWithin(0, gone);
    this.length -= gone;
    this.dropped += gone;
  }
}
