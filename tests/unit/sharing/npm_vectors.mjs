// Makes npm_vectors.json: content ids, blocks, a CAR file and a Merkle root of one package, by the npm packages alone.
// npm install multiformats @ipld/dag-cbor @ipld/car @noble/hashes && node npm_vectors.mjs FOLDER > npm_vectors.json
// FOLDER holds the package's files: library.json and SKILL.md.
import { createRequire } from 'node:module'
import { readFileSync, readdirSync } from 'node:fs'
import { CarWriter } from '@ipld/car/writer'
import * as dagCbor from '@ipld/dag-cbor'
import { keccak_256 } from '@noble/hashes/sha3.js'
import { CID } from 'multiformats/cid'
import * as raw from 'multiformats/codecs/raw'
import { sha256 } from 'multiformats/hashes/sha2'

const version = name => JSON.parse(readFileSync(createRequire(import.meta.url).resolve.paths(name)
  .map(one => `${one}/${name}/package.json`).find(one => { try { return readFileSync(one) } catch { return false } }))).version
const id = async (bytes, codec) => CID.create(1, codec.code, await sha256.digest(bytes))
const concat = parts => Uint8Array.from(parts.flatMap(one => [...one]))
const hex = bytes => '0x' + Buffer.from(bytes).toString('hex')
const above = (a, b) => keccak_256(concat(hex(a) < hex(b) ? [a, b] : [b, a]))

const folder = process.argv[2]
const files = Object.fromEntries(readdirSync(folder).sort().map(name => [name, new Uint8Array(readFileSync(`${folder}/${name}`))]))
const library = JSON.parse(Buffer.from(files['library.json']).toString())
const lessons = [...library.experiences.map(one => [one, 'shown']), ...(library.withheld ?? []).map(one => [one.experience, one.status])]
  .map(([one, status], number) => dagCbor.encode({ id: one.id, lesson: one.lesson, number, status, tags: one.tags }))
let level = lessons.map(one => keccak_256(keccak_256(one)))
while (level.length > 1) {
  level = level.flatMap((one, at) => at % 2 ? [] : [at + 1 < level.length ? above(one, level[at + 1]) : one])
}
const blocks = []
for (const bytes of Object.values(files)) blocks.push({ cid: await id(bytes, raw), bytes })
for (const bytes of lessons) blocks.push({ cid: await id(bytes, dagCbor), bytes })
const names = Object.keys(files)
const root = dagCbor.encode({
  format: 'agentlearn-package/1',
  files: Object.fromEntries(names.map((name, at) => [name, blocks[at].cid])),
  lessons: blocks.slice(names.length).map(one => one.cid),
  merkle: hex(level[0])
})
const address = await id(root, dagCbor)
const { writer, out } = CarWriter.create([address])
const car = (async () => { const all = []; for await (const one of out) all.push(one); return concat(all) })()
for (const one of [{ cid: address, bytes: root }, ...blocks]) await writer.put(one)
await writer.close()
console.log(JSON.stringify({
  made_by: Object.fromEntries(['multiformats', '@ipld/dag-cbor', '@ipld/car', '@noble/hashes'].map(one => [one, version(one)])),
  files: Object.fromEntries(names.map(name => [name, Buffer.from(files[name]).toString()])),
  content: blocks[names.indexOf('library.json')].cid.toString(),
  lessons: blocks.slice(names.length).map(one => one.cid.toString()),
  merkle: hex(level[0]),
  address: address.toString(),
  car: Buffer.from(await car).toString('base64')
}, null, 1))
