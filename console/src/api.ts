/** Calls of the HTTP interface. A session is a cookie that scripts cannot read; a change also brings the session's secret. */

export interface Me {
  sid: string;
  name: string;
  role: "look" | "operate" | "administer";
  csrf?: string;
  hosts: string[];
}

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
  ) {
    super(detail || title);
  }
}

let csrf = "";
let host = "";
let loggedOut: () => void = () => {};

export function remember(me: Me): void {
  csrf = me.csrf ?? "";
}

export function chooseHost(name: string): void {
  host = name;
}

export function whenLoggedOut(action: () => void): void {
  loggedOut = action;
}

export type Query = Record<string, string | number | boolean | undefined | null>;

export function url(path: string, query: Query = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...(path.startsWith("/api/") ? { host } : {}), ...query })) {
    if (value !== undefined && value !== null && value !== "") given.set(name, String(value));
  }
  const text = given.toString();
  return text ? `${path}?${text}` : path;
}

const HOSTLESS = /^\/api\/(me|login|logout|jobs(\/|$)|ways|hosts|audit|alarms|health)/;

/** A body that is not JSON: text, and what it is. */
export class Text {
  constructor(
    readonly text: string,
    readonly kind: string,
  ) {}
}

export async function call<T>(method: string, path: string, query: Query = {}, body?: unknown): Promise<T> {
  const needsHost = !HOSTLESS.test(path) || (method === "POST" && path === "/api/jobs");
  const answer = await fetch(url(path, needsHost ? { host, ...query } : { host: "", ...query }), {
    method,
    headers: {
      ...(body === undefined ? {} : { "content-type": body instanceof Text ? body.kind : "application/json" }),
      ...(method === "GET" ? {} : { "x-msmq-csrf": csrf }),
    },
    body: body === undefined ? undefined : body instanceof Text ? body.text : JSON.stringify(body),
    credentials: "same-origin",
  });
  if (answer.status === 204) return undefined as T;
  if (answer.ok && answer.headers.get("content-type")?.startsWith("application/yaml")) return (await answer.text()) as T;
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    if (answer.status === 401 && path !== "/api/login") loggedOut();
    throw new Problem(answer.status, told.title ?? answer.statusText, told.detail ?? "");
  }
  return told as T;
}

export const get = <T>(path: string, query: Query = {}): Promise<T> => call<T>("GET", path, query);

/** A queue in a path: its backslashes and slashes are written as %5C and %2F. */
export const segment = (name: string): string => encodeURIComponent(name);

export interface Page<T> {
  items: T[];
  total: number;
  page: number;
  page_size: number;
}

export interface QueueRow {
  path: string;
  format_name: string;
  kind: string;
  label: string;
  transactional: boolean;
  journaling: boolean;
  messages: string;
  bytes: string;
  journal_messages: string;
  journal_bytes: string;
  quota_kb: number | null;
  journal_quota_kb: number | null;
  authenticated_only: boolean;
  privacy_level: number;
  base_priority: number;
  multicast_address: string;
  retry_delay_ms: number;
  max_deliveries: number;
  poison_subqueue: string;
  type: string;
  subqueues: string[];
  open_handles: number;
}

export interface MessageRow {
  lookup_id: string;
  message_id: string;
  label: string;
  class: string;
  priority: number;
  delivery: string;
  size: number;
  body_size: number;
  body: string;
  sent_time: string;
  arrived_time: string;
  correlation_id: string;
  destination: string;
  dead_letter_reason: string;
  exception: string;
  returned_count: number;
  sender: string;
}

export interface Found {
  items: MessageRow[];
  looked_at: number;
  last: string;
  end: boolean;
  total: string;
}

export interface Node {
  name: string;
  value?: string;
  meaning?: string;
  members?: Node[];
}

export interface Whole extends MessageRow {
  body_encoding?: string;
  body_type: number;
  extension: string;
  extension_text: string;
  headers: Record<string, string>;
  views: { hex: string; text?: string; json?: string; xml?: string; value?: unknown; formatter?: string };
  structure: Node[];
  editable: boolean;
  /** Where it belongs: the queue that NServiceBus or Rebus noted, or else where it was sent. */
  home: string;
  response_queue: string;
  admin_queue: string;
  application_tag: number;
  authenticated: boolean;
  [name: string]: unknown;
}

export interface Outgoing {
  format_name: string;
  state: string;
  explanation: string;
  next_hops: string[];
  messages: string;
  bytes: string;
  unacknowledged: number;
  unreceived: number;
  last_error: string;
  last_error_words: string;
  attempts: { time: string; status: string; addresses: string[] }[];
}

export interface Figures {
  time_ms: string;
  started_ms: string;
  messages: string;
  bytes: string;
  arrived_total: string;
  removed_total: string;
  store_bytes: string;
  store_live_bytes: string;
  commits_total: string;
  transactions: number;
  memory_bytes: string;
  disk_free_bytes: string;
  sessions: { peer: string; incoming: boolean }[];
  queues: { path: string; messages: string; bytes: string; arrived_total: string; removed_total: string; waiting_readers: number; grown?: string }[];
}

export interface Overview {
  manager: {
    computer_name: string;
    product: string;
    online: boolean;
    quota_kb: number | null;
    bytes: string;
    messages: string;
    losses: string[];
    resources: { descriptors: number; descriptor_limit: string; connections: number };
  };
  statistics: Figures;
  oldest: Record<string, string>;
  dead_letters: string;
  outgoing: Outgoing[];
  changed: { time: string; name: string; what: string; outcome: string; whence: string; thing: string }[];
}

export interface HostRow {
  host: string;
  up: boolean;
  error: string;
  product: string | null;
  online: boolean | null;
  messages: string | null;
  bytes: string | null;
}

export interface FailureGroup {
  queue: string;
  reason: string;
  destination: string;
  exception: string;
  class_name: string;
  messages: string;
  bytes: string;
  oldest: string;
  newest: string;
  labels: string[];
}

export interface Job {
  job: string;
  action: string;
  queue: string;
  target: string;
  name: string;
  state: "running" | "done" | "failed" | "cancelled";
  started: string;
  ended: string;
  done: number;
  gone: number;
  failed: number;
  total: number;
  looked_at: number;
  dry_run: boolean;
  errors: string[];
  targets: Record<string, number>;
}

export interface Change {
  what: string;
  thing: string;
  name: string;
  before: unknown;
  after: unknown;
}
