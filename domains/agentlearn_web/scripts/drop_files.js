// Drops files, each with name, type and content in base64, on an element. Returns whether the page takes files there.
(one, files) => {
  const dataTransfer = new DataTransfer(), { x, y, width, height } = one.getBoundingClientRect();
  for (const [name, type, content] of files)
    dataTransfer.items.add(new File([Uint8Array.from(atob(content), (sign) => sign.charCodeAt(0))], name, { type }));
  const how = { bubbles: true, cancelable: true, composed: true, dataTransfer, clientX: x + width / 2, clientY: y + height / 2 };
  const send = (kind) => !one.dispatchEvent(new DragEvent(kind, how));
  const takes = [send("dragenter"), send("dragover")].some(Boolean);
  send(takes ? "drop" : "dragleave");
  return takes;
}
