// Queues have colours: the first ones that were shown, so that no queue changes its colour.

const KINDS = 8;
const slots = new Map();

// Gives colours to queues, in this order, while there are any.
export function meet(names) {
  for (const name of names) {
    if (slots.size >= KINDS) return;
    if (!slots.has(name)) slots.set(name, slots.size + 1);
  }
}

export const slotOf = (name) => slots.get(name) ?? 0;
export const kindOf = (name) => `hue-${slotOf(name)}`;

export function forget() {
  slots.clear();
}
