// The tour of the gateway's client tests, by Node's fetch. Usage: node tour.mjs BASE
// Prints one JSON line per stop; what they should say is in tests/gateway/clients.
import { createHash } from "node:crypto";

const base = process.argv[2];
const tell = (told) => console.log(JSON.stringify(told));

async function stop(name, path, options) {
  const reply = await fetch(base + path, options);
  const told = { stop: name, status: reply.status };
  for (const field of ["quell-attempts", "quell-stop", "retry-after"]) told[field] = reply.headers.get(field);
  const body = Buffer.from(await reply.arrayBuffer());
  told.body = body.length < 200 ? body.toString() : createHash("sha256").update(body).digest("hex");
  tell(told);
}

await stop("get", "/hello?from=here");
await stop("post", "/echo", { method: "POST", body: Buffer.from(Array.from({ length: 100_000 }, (_, i) => i % 251)) });
await stop("retried", "/flaky");
await stop("passes", "/limited");
await stop("refused", "/limited");
await stop("large", "/large");

const events = [];
const reply = await fetch(base + "/events");
let text = "";
for await (const part of reply.body) {
  text += Buffer.from(part).toString();
  for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
    events.push(text.slice("data: ".length, end));
    await fetch(base + "/next", { method: "POST" }); // the next one comes only now
  }
}
tell({ stop: "stream", body: events.join(" ") });
