// A receiver of webhooks, whole: verify, inbox, 200, worker, apply if newer, reconcile. Node 20 or newer, no packages.
//
//     WAYBILL_URL=https://hooks.example.com WAYBILL_KEY=wbt_... WEBHOOK_SECRET=whsec_... node receiver.mjs 3000
//
// The inbox is a directory: one file for each event id. A database does the same with a unique key and a transaction.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'
import { link, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'

const secrets = process.env.WEBHOOK_SECRET.split(' ').map((s) => Buffer.from(s.slice('whsec_'.length), 'base64')) // two while one is rotated
const tolerance = 300
const maxBody = 1 << 20
const home = process.env.DATABASE ?? 'inbox'
const reconcileEvery = Number(process.env.RECONCILE_EVERY ?? '3600') * 1000
const [waiting, done, failed, state] = ['waiting', 'done', 'failed', 'state'].map((name) => join(home, name))

// A file is there whole, or not at all, also after a power cut.
let writes = 0
async function write(path, text, onlyNew = false) {
  const draft = join(home, `draft-${process.pid}-${writes++}`)
  const file = await open(draft, 'w')
  await file.writeFile(text)
  await file.sync()
  await file.close()
  try {
    await (onlyNew ? link(draft, path) : rename(draft, path))
    return true
  } catch (why) {
    if (onlyNew && why.code === 'EEXIST') return false
    throw why
  } finally {
    await rm(draft, { force: true })
  }
}

// The message's id when one of the signatures is ours. Over the bytes as they arrived, before any parsing.
function verify(headers, body) {
  const id = headers['webhook-id'], stamp = headers['webhook-timestamp'], given = headers['webhook-signature']
  if (!id || !/^[A-Za-z0-9_-]{1,64}$/.test(id) || !/^\d{1,12}$/.test(stamp ?? '') || !given) return null
  if (Math.abs(Date.now() / 1000 - Number(stamp)) > tolerance) return null
  for (const secret of secrets) {
    const ours = Buffer.from('v1,' + createHmac('sha256', secret).update(`${id}.${stamp}.`).update(body).digest('base64'))
    for (const signature of given.split(' ')) {
      const theirs = Buffer.from(signature)
      if (theirs.length === ours.length && timingSafeEqual(theirs, ours)) return id
    }
  }
  return null
}

// Puts a message into the inbox, once for each id. Whoever moved it on is asked first; the unique name decides between two at once.
async function store(id, body) {
  for (const place of [done, failed]) if (await exists(join(place, id))) return false
  return write(join(waiting, id), body, true)
}

const exists = (path) => readFile(path).then(() => true, () => false)

async function bodyOf(request) {
  const parts = []
  let size = 0
  for await (const part of request) {
    if ((size += part.length) > maxBody) return null
    parts.push(part)
  }
  return Buffer.concat(parts)
}

async function receive(request) {
  if (request.method === 'GET') return [200, JSON.stringify(await states())] // for looking at: what the worker has made of it
  const body = await bodyOf(request)
  if (body === null) return [413]
  const id = verify(request.headers, body)
  if (id === null) return [401]
  await store(id, body)
  setImmediate(work) // it is in the inbox, new or not: the work comes later
  return [200]
}

const server = createServer({ requestTimeout: 10_000 }, async (request, response) => {
  const [status, text = ''] = await receive(request).catch((why) => { console.error('not stored:', why.message); return [503] })
  response.writeHead(status).end(text)
})

const nameOf = (resource) => encodeURIComponent(`${resource.type}/${resource.id}`)

// Writes the state if the event is newer than what is there, so that stale news changes nothing. There is one worker, so nobody writes in between.
async function apply(event) {
  if (event.test) return
  const path = join(state, nameOf(event.resource))
  const now = await readFile(path, 'utf8').then(JSON.parse, () => ({ version: -1 }))
  if (now.version >= event.sequence) return
  await write(path, JSON.stringify({ ...event.resource, version: event.sequence, data: event.data }))
}

async function states() {
  const names = (await readdir(state)).sort()
  return Promise.all(names.map((name) => readFile(join(state, name), 'utf8').then(JSON.parse)))
}

// A crash between the effect and the move repeats the effect, which changes nothing the second time.
let working = false, again = false
async function work() {
  again = true
  if (working) return
  working = true
  while (again) {
    again = false
    for (const id of await readdir(waiting)) {
      let to = done
      try {
        await apply(JSON.parse(await readFile(join(waiting, id), 'utf8')))
      } catch (why) {
        console.error('failed:', id, why.message) // what this cannot handle must not hold up the rest
        to = failed
      }
      await rename(join(waiting, id), join(to, id))
    }
  }
  working = false
}

// Reads the catalog from where it stopped; what never arrived goes into the inbox as if it had.
async function reconcile() {
  const bookmark = join(home, 'bookmark')
  let cursor = await readFile(bookmark, 'utf8').catch(() => '')
  for (let more = true; more;) {
    const query = new URLSearchParams(cursor ? { limit: '200', after: cursor } : { limit: '200' })
    const answer = await fetch(`${process.env.WAYBILL_URL.replace(/\/+$/, '')}/v1/events?${query}`, {
      headers: { authorization: `Bearer ${process.env.WAYBILL_KEY}` }, signal: AbortSignal.timeout(30_000),
    })
    if (answer.status === 410 && cursor) {
      cursor = '' // older than what is kept: read all that there is
      continue
    }
    if (!answer.ok) throw new Error(`the catalog answers ${answer.status}`)
    const page = await answer.json()
    for (const event of page.data) await store(event.id, JSON.stringify(event))
    await work()
    cursor = page.next
    more = page.more
    await write(bookmark, cursor)
  }
}

for (const place of [home, waiting, done, failed, state]) await mkdir(place, { recursive: true })
await work() // what a crash left
const keepReconciling = () => reconcile().catch((why) => console.error('not reconciled:', why.message)).finally(() => setTimeout(keepReconciling, reconcileEvery))
keepReconciling()
server.listen(Number(process.argv[2]), '127.0.0.1', () => console.log('listening on', server.address().port))
