// A client in JavaScript that knows nothing but the contract: `node client.js MODULES PROTO ADDRESS` makes a queue,
// sends, receives with acknowledgement and in a transaction, and prints what it saw as JSON. MODULES is a directory with
// the packages of package.json.
"use strict";

const path = require("node:path");
const { createRequire } = require("node:module");

const [modules, proto, address] = process.argv.slice(2);
const load = createRequire(path.join(modules, "package.json"));
const grpc = load("@grpc/grpc-js");
const loader = load("@grpc/proto-loader");

const QUEUE = ".\\private$\\node";
const definition = loader.loadSync(proto, { keepCase: true, longs: String, enums: String, oneofs: true });
const { Messages, Administration } = grpc.loadPackageDefinition(definition).msmq.v1;

/** A call with one answer, as a promise. */
function ask(client, method, request) {
  return new Promise((resolve, reject) => {
    client[method](request, (error, reply) => (error ? reject(error) : resolve(reply)));
  });
}

/** A call with streams on both sides: write a request, read the next reply. */
class Stream {
  constructor(call) {
    this.call = call;
    this.replies = call[Symbol.asyncIterator]();
  }

  put(request) {
    this.call.write(request);
  }

  async next() {
    const { value, done } = await this.replies.next();
    if (done) throw new Error("the stream has ended");
    return value;
  }

  async asks(request) {
    this.put(request);
    return this.next();
  }

  end() {
    this.call.end();
  }
}

async function send(messages) {
  const sending = new Stream(messages.SendStream());
  const { opened } = await sending.asks({ open: { queue: QUEUE } });
  const confirmed = [];
  for (const number of [1, 2]) {
    const message = { body: Buffer.from(`body ${number}`), label: "grüße", priority: 5 };
    sending.put({ batch: { number, messages: [message] } });
  }
  while (confirmed.length < 2) confirmed.push((await sending.next()).confirmed.number);
  sending.end();
  return { transactional: opened.transactional, confirmed };
}

async function receive(messages) {
  const receiving = new Stream(messages.Receive());
  await receiving.asks({ open: { queue: QUEUE } });
  const [first] = (await receiving.asks({ credit: { messages: 1 } })).deliveries.messages;
  const { settled } = await receiving.asks({ acknowledge: { lookup_ids: [first.lookup_id] } });

  const deciding = new Stream(messages.Transact());
  const { transaction } = await deciding.asks({ begin: {} });
  const [second] = (await receiving.asks({ credit: { messages: 1, transaction } })).deliveries.messages;
  const answer = { body: Buffer.from("answer"), correlation_id: second.message_id };
  await ask(messages, "Send", { queue: QUEUE, messages: [answer], transaction });
  const decided = await deciding.asks({ commit: {} });
  receiving.end();
  deciding.end();
  return {
    first: [first.message.body.toString(), first.message.label],
    settled: settled.messages,
    second: second.message.body.toString(),
    id: second.message_id,
    decided: decided.reply,
  };
}

async function main() {
  const credentials = grpc.credentials.createInsecure();
  const messages = new Messages(address, credentials);
  const administration = new Administration(address, credentials);
  await ask(administration, "CreateQueue", { path: QUEUE, transactional: true });
  const sent = await send(messages);
  const { id, ...received } = await receive(messages);
  const left = await ask(messages, "Lookup", { queue: QUEUE, seek: "SEEK_FIRST" });
  let error = "";
  try {
    await ask(administration, "GetQueue", { queue: ".\\private$\\none" });
  } catch (failure) {
    // An Error of the contract; its name is readable in the bytes.
    error = failure.metadata.get("msmq-error-bin")[0].toString("latin1").match(/MQ_ERROR_\w+/)[0];
  }
  const seen = { ...sent, ...received, left: left.message.body.toString(), error };
  console.log(JSON.stringify({ ...seen, answers: id.equals(left.message.correlation_id) }));
  messages.close();
  administration.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
