// Server-sent events, parsed (HTML standard, section 9.2.6): text in, {type, id, data} out. How long to wait
// before coming back is decided in stream.js, so `retry` is not read.

/** A function that takes text in pieces of any size and calls `onEvent` for each complete event. `onId` hears
 * ids, also those that come without an event: where to resume from. */
export function parser(onEvent, onId = () => {}) {
  let rest = "";
  let type = "";
  let data = [];
  let id; // undefined: the event names none

  function line(text) {
    if (text === "") {
      if (id !== undefined) onId(id);
      if (data.length) onEvent({ type: type || "message", id, data: data.join("\n") });
      type = "";
      data = [];
      return;
    }
    const colon = text.indexOf(":");
    if (colon === 0) return; // a comment: the heartbeat
    const field = colon < 0 ? text : text.slice(0, colon);
    let value = colon < 0 ? "" : text.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (field === "event") type = value;
    else if (field === "data") data.push(value);
    else if (field === "id" && !value.includes("\0")) id = value;
  }

  return (text) => {
    rest += text;
    let end;
    while ((end = rest.search(/\r\n|\n|\r/)) >= 0) {
      // a CR at the very end may be the first half of CRLF
      if (rest[end] === "\r" && end === rest.length - 1) return;
      const length = rest.startsWith("\r\n", end) ? 2 : 1;
      line(rest.slice(0, end));
      rest = rest.slice(end + length);
    }
  };
}
