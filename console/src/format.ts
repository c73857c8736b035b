const UNITS = ["B", "KB", "MB", "GB", "TB"];

export function bytes(value: string | number): string {
  let left = Number(value);
  let unit = 0;
  while (left >= 1024 && unit < UNITS.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${unit === 0 || left >= 100 ? Math.round(left) : left.toFixed(1)} ${UNITS[unit]}`;
}

export function count(value: string | number): string {
  return Number(value).toLocaleString("en-US");
}

/** A number with the thing that is counted: one message, 2 messages. */
export function many(value: string | number, thing: string): string {
  return `${count(value)} ${thing}${Number(value) === 1 ? "" : "s"}`;
}

export function time(text: string): string {
  return text ? text.replace("T", " ").replace(/(\.\d+)?Z$/, "") : "";
}

export function age(text: string, now = Date.now()): string {
  const seconds = Math.max(0, Math.round((now - Date.parse(text)) / 1000));
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** A queue as people name it: without the computer, and without "private$"; dead letters have two names each. */
export function short(path: string): string {
  const dead = /\\(system\$;deadxact|xactdeadletter\$|system\$;deadletter|deadletter\$)$/i.exec(path)?.[1];
  if (dead) return /xact/i.test(dead) ? "transactional dead letters" : "dead letters";
  const rest = path.includes("\\") ? path.slice(path.indexOf("\\") + 1) : path;
  return rest.replace(/^private\$\\/i, "");
}
