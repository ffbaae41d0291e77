// Draws in pieces: a few milliseconds of it a frame, so that the page answers in between. Does not know what is drawn.

const PIECE_MS = 8;

export class Painter {
  /** Args: pieces(): a generator of what is to be drawn now; it yields wherever it may be interrupted. */
  constructor(pieces) {
    Object.assign(this, { pieces, rest: null, isWanted: false, isBusy: false });
  }

  /** What is being drawn is drawn to its end before, so that there is an end however often this is asked for. */
  ask() {
    this.isWanted = true;
    if (!this.isBusy) this.#next();
  }

  /** What is being drawn is out of date, all of it. */
  askAnew() {
    this.rest = null;
    this.ask();
  }

  #next() {
    this.isBusy = this.rest !== null || this.isWanted;
    if (this.isBusy) requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    if (this.rest === null) {
      this.rest = this.pieces();
      this.isWanted = false;
    }
    const end = performance.now() + PIECE_MS;
    try {
      while (this.rest !== null && performance.now() < end) if (this.rest.next().done) this.rest = null;
    } finally {
      this.#next(); // what cannot be drawn is not the last that is
    }
  }
}
