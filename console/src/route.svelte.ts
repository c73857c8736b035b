/** Where one is: the path, and what stands behind the question mark. */
export const place = $state({ path: location.pathname, query: new URLSearchParams(location.search) });

function read(): void {
  place.path = location.pathname;
  place.query = new URLSearchParams(location.search);
}

export function go(path: string, query: Record<string, string> = {}): void {
  const given = new URLSearchParams(query).toString();
  history.pushState(null, "", given ? `${path}?${given}` : path);
  read();
  document.getElementById("main")?.focus({ preventScroll: true });
}

addEventListener("popstate", read);
