// Asks Perfetto's trace processor about a trace: node trace_processor.js BUNDLE_FOLDER TRACE SQL...
// Prints one JSON array: for each query its rows, each row an object.
//
// The trace processor comes as WebAssembly inside a web worker's script. The script is run here with the few
// things that it expects of a worker, and spoken to through the port that it is given: length-delimited
// protocol buffers, of which the handful of fields used here are read and written by hand.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [folder, trace, ...queries] = process.argv.slice(2);
const APPEND = 1, FINALIZE = 2, QUERY = 3;                             // methods
const METHOD = 2, FATAL = 5, DATA = 101, ARGS = 103, RESULT = 203;     // fields of a request or reply
const APPEND_RESULT = 201, FINALIZE_RESULT = 207;

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
}
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint(field * 8 + 2), varint(value.length), value]);

function* fields(buffer) {
  let at = 0;
  const next = () => {
    let value = 0n, shift = 0n, byte;
    do { byte = buffer[at++]; value |= BigInt(byte & 127) << shift; shift += 7n; } while (byte & 128);
    return value;
  };
  while (at < buffer.length) {
    const key = Number(next()), field = key >> 3, wire = key & 7;
    if (wire === 0) yield [field, next()];
    else if (wire === 1) { yield [field, buffer.subarray(at, at + 8)]; at += 8; }
    else if (wire === 2) { const size = Number(next()); yield [field, buffer.subarray(at, at + size)]; at += size; }
    else throw new Error(`wire type ${wire}`);
  }
}
function* varints(buffer) {
  for (let at = 0; at < buffer.length;) {
    let value = 0n, shift = 0n, byte;
    do { byte = buffer[at++]; value |= BigInt(byte & 127) << shift; shift += 7n; } while (byte & 128);
    yield BigInt.asIntN(64, value);
  }
}

function rows(results) {
  const columns = [], found = [];
  for (const result of results) {
    for (const [field, value] of fields(result)) {
      if (field === 1) columns.push(value.toString());
      if (field === 2 && value.length) throw new Error(value.toString());
      if (field !== 3) continue;
      const cells = [], whole = [], floats = [], texts = [];
      for (const [part, content] of fields(value)) {
        if (part === 1) cells.push(...content);
        if (part === 2) whole.push(...varints(content));
        if (part === 3) for (let at = 0; at < content.length; at += 8) floats.push(content.readDoubleLE(at));
        if (part === 5) texts.push(...content.toString().split("\0").slice(0, -1));
      }
      const take = { 1: () => null, 2: () => Number(whole.shift()), 3: () => floats.shift(), 4: () => texts.shift() };
      cells.forEach((type, index) => {
        if (index % columns.length === 0) found.push({});
        found[found.length - 1][columns[index % columns.length]] = take[type]();
      });
    }
  }
  return found;
}

globalThis.self = globalThis;
globalThis.WorkerGlobalScope = globalThis;
globalThis.location = { href: "http://localhost/" };
globalThis.XMLHttpRequest = class {          // how a worker loads its WebAssembly
  open(method, name) { this.name = path.basename(name); }
  send() { this.response = new Uint8Array(fs.readFileSync(path.join(folder, this.name))).buffer; }
};
process.type = "renderer";                   // the script looks for Node, and refuses it
console.log = console.warn = () => {};
vm.runInThisContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"));

const port = { replies: [], postMessage(message) { this.replies.push(Buffer.from(message)); } };
self.onmessage({ data: port });

function ask(method, ...parts) {
  port.replies = [];
  const request = Buffer.concat([number(METHOD, method), ...parts]);
  port.onmessage({ data: new Uint8Array(bytes(1, request)) });
  const found = [];
  for (const [, reply] of fields(Buffer.concat(port.replies))) {
    for (const [field, value] of fields(reply)) {
      if (field === FATAL) throw new Error(value.toString());
      if (field === RESULT) found.push(value);
      if (field === APPEND_RESULT || field === FINALIZE_RESULT)
        for (const [part, message] of fields(value)) if (part === 1 && message.length) throw new Error(message.toString());
    }
  }
  return found;
}

setImmediate(() => {     // the bridge has set itself up by then
  try {
    ask(APPEND, bytes(DATA, fs.readFileSync(trace)));
    ask(FINALIZE);
    const answers = queries.map((sql) => rows(ask(QUERY, bytes(ARGS, bytes(1, Buffer.from(sql))))));
    process.stdout.write(JSON.stringify(answers), () => process.exit(0));
  } catch (error) {
    process.stderr.write(`${error.message}\n`, () => process.exit(1));
  }
});
