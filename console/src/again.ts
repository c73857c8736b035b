/**
 * Do something now and again: once more a while after it has ended, so that a slow answer is not asked for twice, and not
 * while nobody can see the page. Gives what ends it.
 */
export function again(action: () => Promise<void>, pauseMs: number): () => void {
  let over = false;
  let next: ReturnType<typeof setTimeout>;
  async function turn(): Promise<void> {
    if (!document.hidden) await action();
    if (!over) next = setTimeout(turn, pauseMs);
  }
  void turn();
  return () => {
    over = true;
    clearTimeout(next);
  };
}
