// Where lines come from: the server's stream of events, or a file. Each hands over portions of lines.
// Knows fetch, text and line ends. Does not know what is in a line.

const FIRST_PAUSE_S = 0.5;
const LAST_PAUSE_S = 10;

/** Raised where another try would not help: there is no log, or the browser was given no key. */
export class Refused extends Error {}

/** Until it is aborted: each connection tells all from the start, and whether it is of a saved file. Raises Refused. */
export async function follow(url, signal, { began, took, caughtUp, lost }) {
  let pause_s = FIRST_PAUSE_S;
  while (!signal.aborted) {
    try {
      const response = await fetch(url, { signal, cache: "no-store" });
      if (!response.ok) await refuse(response);
      began(response.headers.get("sapwood-log") === "saved");
      await readLines(response.body, (lines) => {
        const data = lines.filter((line) => line.startsWith("data: "));
        took(data.map((line) => line.slice("data: ".length)));
        if (lines.includes(":")) caughtUp();
      });
      pause_s = FIRST_PAUSE_S;
    } catch (error) {
      if (signal.aborted || error instanceof Refused) throw error;
    }
    lost();
    await new Promise((resolve) => setTimeout(resolve, 1000 * pause_s));
    pause_s = Math.min(LAST_PAUSE_S, 2 * pause_s);
  }
}

export async function readFile(file, signal, { began, took, caughtUp }) {
  began();
  await readLines(file.stream(), (lines) => {
    signal.throwIfAborted();
    took(lines.filter((line) => line.startsWith("{")));
  });
  caughtUp();
}

async function readLines(stream, take) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let begun = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const lines = (begun + value).split("\n");
    begun = lines.pop();
    take(lines);
  }
  if (begun) take([begun]);
}

async function refuse(response) {
  if (response.status >= 500) throw new Error(`HTTP ${response.status}`); // it may pass
  let message = `HTTP ${response.status}`;
  try {
    message = (await response.json()).error.message;
  } catch {
    // it is not ours
  }
  throw new Refused(message);
}
