// Where each node of a radix tree is drawn: across by the place of its tokens in the prompt, down by the leaves below it.
// Pure.

/** A node as it was told: [id, parent, tokens, seconds since it was used, how many requests run on it, its hits]. */
export function layout(told) {
  const nodes = told.map(([id, parent, tokens, age_s, sharers, hits]) => ({
    id, parent, tokens: Math.max(0, tokens), age_s: age_s || 0, sharers: sharers || 0, hits: hits || 0, children: [], depth: 0, leaves: 0, top: 0,
  }));
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const roots = [];
  for (const node of nodes) {
    const parent = node.parent === node.id ? undefined : byId.get(node.parent);
    node.parent = parent ?? null;
    (parent ? parent.children : roots).push(node);
  }
  const ordered = placed(roots);
  return {
    nodes: ordered,
    roots,
    leaves: roots.reduce((sum, root) => sum + root.leaves, 0),
    tokens: ordered.reduce((sum, node) => sum + node.tokens, 0),
    deepest: ordered.reduce((most, node) => Math.max(most, node.depth + node.tokens), 0),
    oldest_s: ordered.reduce((most, node) => Math.max(most, node.age_s), 0),
    most_hits: ordered.reduce((most, node) => Math.max(most, node.hits), 0),
  };
}

/** Parents before children; nodes that lead in a circle are not reached. Without recursion: trees can be deep. */
function placed(roots) {
  const ordered = [...roots];
  for (let at = 0; at < ordered.length; at++) {
    const node = ordered[at];
    for (const child of node.children) {
      child.depth = node.depth + node.tokens;
      ordered.push(child);
    }
  }
  for (const node of [...ordered].reverse()) {
    node.leaves = Math.max(1, node.children.reduce((sum, child) => sum + child.leaves, 0));
    node.children.sort((one, other) => other.leaves - one.leaves || other.tokens - one.tokens);
  }
  stack(roots, 0);
  for (const node of ordered) stack(node.children, node.top);
  return ordered;
}

function stack(siblings, top) {
  for (const node of siblings) {
    node.top = top;
    top += node.leaves;
  }
}
