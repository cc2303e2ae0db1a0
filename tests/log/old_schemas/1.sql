PRAGMA page_size = 4096;
PRAGMA application_id = 1114989668;
BEGIN;
CREATE TABLE approvals (
  id TEXT PRIMARY KEY, session INTEGER NOT NULL, run_id TEXT NOT NULL, call_id TEXT NOT NULL, digest TEXT NOT NULL,
  expires_at INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'pending', decided_by TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE blob_refs (
  blob TEXT NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (blob, session)
) STRICT, WITHOUT ROWID;
INSERT INTO "blob_refs" VALUES('88262a129cf9fe37c7b2854861990ab6e33be80018311b097231fde2b7b52f34',1);
INSERT INTO "blob_refs" VALUES('c788765b26abc18bdc6e7d6d3a4997bdce4cf3847d400cf5b946ac59c93985fb',2);
INSERT INTO "blob_refs" VALUES('c80f2e4ac48de1e436ecc346c0cfb21fe235093de43609d3a6081bc8f851e0e4',2);
CREATE TABLE claims (
  session INTEGER NOT NULL, call_id TEXT NOT NULL, attempt INTEGER NOT NULL, digest TEXT NOT NULL,
  PRIMARY KEY (session, call_id, attempt)
) STRICT, WITHOUT ROWID;
INSERT INTO "claims" VALUES(1,'run_01M7N85RYRES6CWMC215QYJTR2/call_0_0',1,'88262a129cf9fe37c7b2854861990ab6e33be80018311b097231fde2b7b52f34');
INSERT INTO "claims" VALUES(2,'run_01M7N85TQ36STD6FZ8WRGADRYY/call_0_0',1,'c80f2e4ac48de1e436ecc346c0cfb21fe235093de43609d3a6081bc8f851e0e4');
INSERT INTO "claims" VALUES(2,'run_01M7N85TQ36STD6FZ8WRGADRYY/call_1_0',1,'c788765b26abc18bdc6e7d6d3a4997bdce4cf3847d400cf5b946ac59c93985fb');
CREATE TABLE events (
  session INTEGER NOT NULL, seq INTEGER NOT NULL, ts INTEGER NOT NULL, run_id TEXT, type TEXT NOT NULL,
  payload TEXT NOT NULL, PRIMARY KEY (session, seq)
) STRICT;
INSERT INTO "events" VALUES(1,1,1794935808971,NULL,'session_started','{"sessionId":"sess_01M7N85RXFDXCHVR5NN5WH1SPJ","state":"idle","mode":"headless","provider":"default","sandboxProvider":"local","repo":{"rootPath":"WORKSPACE"},"options":{"target":"local","approvalPolicy":"all","budget":{}},"metadata":{"source":"cli"}}');
INSERT INTO "events" VALUES(1,2,1794935808984,'run_01M7N85RYRES6CWMC215QYJTR2','user_message','{"messageId":"msg_01M7N85RYQTY89MYM12DKFSH0W","text":"make it","by":"headless"}');
INSERT INTO "events" VALUES(1,3,1794935808984,'run_01M7N85RYRES6CWMC215QYJTR2','run_started','{"runId":"run_01M7N85RYRES6CWMC215QYJTR2","options":{"budget":{"maxTurns":50},"profile":"test","model":"scripted","target":"local","sandbox":"host"}}');
INSERT INTO "events" VALUES(1,4,1794935809694,'run_01M7N85RYRES6CWMC215QYJTR2','progress','{"kind":"provider_call","message":"[1/50] Calling provider","turn":1,"maxTurns":50}');
INSERT INTO "events" VALUES(1,5,1794935809694,'run_01M7N85RYRES6CWMC215QYJTR2','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(1,6,1794935809694,'run_01M7N85RYRES6CWMC215QYJTR2','model_request','{"turn":1,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3709}');
INSERT INTO "events" VALUES(1,7,1794935809695,'run_01M7N85RYRES6CWMC215QYJTR2','assistant_token','{"text":"I "}');
INSERT INTO "events" VALUES(1,8,1794935809695,'run_01M7N85RYRES6CWMC215QYJTR2','assistant_token','{"text":"make it."}');
INSERT INTO "events" VALUES(1,9,1794935809695,'run_01M7N85RYRES6CWMC215QYJTR2','assistant_message','{"messageId":"asst_01M7N85RYRES6CWMC215QYJTR2.1","text":"I make it.","toolCalls":[{"callId":"call_0_0","name":"run_shell","arguments":"{\"command\":\"echo made > made.txt\"}"},{"callId":"call_0_1","name":"read_file","arguments":"{\"path\":\"a.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(1,10,1794935809695,'run_01M7N85RYRES6CWMC215QYJTR2','assistant_done','{"messageId":"asst_01M7N85RYRES6CWMC215QYJTR2.1"}');
INSERT INTO "events" VALUES(1,11,1794935809695,'run_01M7N85RYRES6CWMC215QYJTR2','usage','{"turn":1,"inputTokens":202,"outputTokens":19,"context":{"used":221,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3178,"history":7,"buffer":1024},"budget":{"turns":1,"tokens":221,"toolCalls":0,"seconds":0.711,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(1,12,1794935809695,'run_01M7N85RYRES6CWMC215QYJTR2','phase','{"name":"streaming","durationMs":1.0}');
INSERT INTO "events" VALUES(1,13,1794935809695,'run_01M7N85RYRES6CWMC215QYJTR2','progress','{"kind":"tool_execution","message":"[1/50] Executing tools: run_shell, read_file","turn":1,"maxTurns":50,"toolNames":["run_shell","read_file"]}');
INSERT INTO "events" VALUES(1,14,1794935809703,'run_01M7N85RYRES6CWMC215QYJTR2','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo made > made.txt"},"callId":"call_0_0","target":"local"}');
INSERT INTO "events" VALUES(1,15,1794935809705,'run_01M7N85RYRES6CWMC215QYJTR2','approval_received','{"approvalId":"appr_01M7N85SN9ERMNCBM1W82R038S","decision":"approve","by":"policy","callId":"call_0_0","digest":"88262a129cf9fe37c7b2854861990ab6e33be80018311b097231fde2b7b52f34"}');
INSERT INTO "events" VALUES(1,16,1794935809710,'run_01M7N85RYRES6CWMC215QYJTR2','tool_claimed','{"callId":"call_0_0","attempt":1,"tier":"privileged","target":"local","digest":"88262a129cf9fe37c7b2854861990ab6e33be80018311b097231fde2b7b52f34"}');
INSERT INTO "events" VALUES(1,17,1794935809720,'run_01M7N85RYRES6CWMC215QYJTR2','tool_result','{"source":"sandbox","toolName":"run_shell","durationMs":25,"isError":false,"text":"exit code: 0","structuredError":null,"callId":"call_0_0","target":"local","exitCode":0}');
INSERT INTO "events" VALUES(1,18,1794935809721,'run_01M7N85RYRES6CWMC215QYJTR2','tool_call','{"source":"sandbox","toolName":"read_file","args":{"path":"a.txt"},"callId":"call_0_1","target":"local"}');
INSERT INTO "events" VALUES(1,19,1794935809722,'run_01M7N85RYRES6CWMC215QYJTR2','tool_result','{"source":"sandbox","toolName":"read_file","durationMs":2,"isError":false,"text":"hello","structuredError":null,"callId":"call_0_1","target":"local"}');
INSERT INTO "events" VALUES(1,20,1794935809722,'run_01M7N85RYRES6CWMC215QYJTR2','phase','{"name":"tool_execution","durationMs":27.0}');
INSERT INTO "events" VALUES(1,21,1794935809722,'run_01M7N85RYRES6CWMC215QYJTR2','progress','{"kind":"provider_call","message":"[2/50] Calling provider","turn":2,"maxTurns":50}');
INSERT INTO "events" VALUES(1,22,1794935809722,'run_01M7N85RYRES6CWMC215QYJTR2','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(1,23,1794935809722,'run_01M7N85RYRES6CWMC215QYJTR2','model_request','{"turn":2,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3763}');
INSERT INTO "events" VALUES(1,24,1794935809729,'run_01M7N85RYRES6CWMC215QYJTR2','assistant_token','{"text":"It "}');
INSERT INTO "events" VALUES(1,25,1794935809729,'run_01M7N85RYRES6CWMC215QYJTR2','assistant_token','{"text":"is made."}');
INSERT INTO "events" VALUES(1,26,1794935809730,'run_01M7N85RYRES6CWMC215QYJTR2','assistant_message','{"messageId":"asst_01M7N85RYRES6CWMC215QYJTR2.2","text":"It is made.","toolCalls":[],"finish":"stop","truncated":false}');
INSERT INTO "events" VALUES(1,27,1794935809730,'run_01M7N85RYRES6CWMC215QYJTR2','assistant_done','{"messageId":"asst_01M7N85RYRES6CWMC215QYJTR2.2"}');
INSERT INTO "events" VALUES(1,28,1794935809730,'run_01M7N85RYRES6CWMC215QYJTR2','usage','{"turn":2,"inputTokens":226,"outputTokens":2,"context":{"used":228,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3178,"history":61,"buffer":1024},"budget":{"turns":2,"tokens":449,"toolCalls":2,"seconds":0.746,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(1,29,1794935809730,'run_01M7N85RYRES6CWMC215QYJTR2','phase','{"name":"streaming","durationMs":8.0}');
INSERT INTO "events" VALUES(1,30,1794935809730,'run_01M7N85RYRES6CWMC215QYJTR2','run_complete','{"runId":"run_01M7N85RYRES6CWMC215QYJTR2","outcome":"success","summary":"It is made.","headless":{"exitCodeHint":0}}');
INSERT INTO "events" VALUES(2,1,1794935810775,NULL,'session_started','{"sessionId":"sess_01M7N85TNPHPXNF6792AE2MPE2","state":"idle","mode":"headless","provider":"default","sandboxProvider":"local","repo":{"rootPath":"WORKSPACE"},"options":{"target":"local","approvalPolicy":"all","budget":{}},"metadata":{"source":"cli"}}');
INSERT INTO "events" VALUES(2,2,1794935810787,'run_01M7N85TQ36STD6FZ8WRGADRYY','user_message','{"messageId":"msg_01M7N85TQ3JFWV6G55G676NX33","text":"work on it","by":"headless"}');
INSERT INTO "events" VALUES(2,3,1794935810787,'run_01M7N85TQ36STD6FZ8WRGADRYY','run_started','{"runId":"run_01M7N85TQ36STD6FZ8WRGADRYY","options":{"budget":{"maxTurns":50},"profile":"test","model":"scripted","target":"local","sandbox":"host"}}');
INSERT INTO "events" VALUES(2,4,1794935811324,'run_01M7N85TQ36STD6FZ8WRGADRYY','progress','{"kind":"provider_call","message":"[1/50] Calling provider","turn":1,"maxTurns":50}');
INSERT INTO "events" VALUES(2,5,1794935811324,'run_01M7N85TQ36STD6FZ8WRGADRYY','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(2,6,1794935811324,'run_01M7N85TQ36STD6FZ8WRGADRYY','model_request','{"turn":1,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3827}');
INSERT INTO "events" VALUES(2,7,1794935811325,'run_01M7N85TQ36STD6FZ8WRGADRYY','assistant_message','{"messageId":"asst_01M7N85TQ36STD6FZ8WRGADRYY.1","text":"","toolCalls":[{"callId":"call_0_0","name":"run_shell","arguments":"{\"command\":\"echo one >> work.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(2,8,1794935811325,'run_01M7N85TQ36STD6FZ8WRGADRYY','assistant_done','{"messageId":"asst_01M7N85TQ36STD6FZ8WRGADRYY.1"}');
INSERT INTO "events" VALUES(2,9,1794935811326,'run_01M7N85TQ36STD6FZ8WRGADRYY','usage','{"turn":1,"inputTokens":287,"outputTokens":10,"context":{"used":297,"limit":128000,"system":268,"summary":0,"memory":117,"tools":3178,"history":8,"buffer":1024},"budget":{"turns":1,"tokens":297,"toolCalls":0,"seconds":0.538,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(2,10,1794935811326,'run_01M7N85TQ36STD6FZ8WRGADRYY','phase','{"name":"streaming","durationMs":2.0}');
INSERT INTO "events" VALUES(2,11,1794935811326,'run_01M7N85TQ36STD6FZ8WRGADRYY','progress','{"kind":"tool_execution","message":"[1/50] Executing tools: run_shell","turn":1,"maxTurns":50,"toolNames":["run_shell"]}');
INSERT INTO "events" VALUES(2,12,1794935811328,'run_01M7N85TQ36STD6FZ8WRGADRYY','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo one >> work.txt"},"callId":"call_0_0","target":"local"}');
INSERT INTO "events" VALUES(2,13,1794935811330,'run_01M7N85TQ36STD6FZ8WRGADRYY','approval_received','{"approvalId":"appr_01M7N85V823MBE1E2XG8XSFM57","decision":"approve","by":"policy","callId":"call_0_0","digest":"c80f2e4ac48de1e436ecc346c0cfb21fe235093de43609d3a6081bc8f851e0e4"}');
INSERT INTO "events" VALUES(2,14,1794935811331,'run_01M7N85TQ36STD6FZ8WRGADRYY','tool_claimed','{"callId":"call_0_0","attempt":1,"tier":"privileged","target":"local","digest":"c80f2e4ac48de1e436ecc346c0cfb21fe235093de43609d3a6081bc8f851e0e4"}');
INSERT INTO "events" VALUES(2,15,1794935811339,'run_01M7N85TQ36STD6FZ8WRGADRYY','tool_result','{"source":"sandbox","toolName":"run_shell","durationMs":12,"isError":false,"text":"exit code: 0","structuredError":null,"callId":"call_0_0","target":"local","exitCode":0}');
INSERT INTO "events" VALUES(2,16,1794935811339,'run_01M7N85TQ36STD6FZ8WRGADRYY','phase','{"name":"tool_execution","durationMs":13.0}');
INSERT INTO "events" VALUES(2,17,1794935811339,'run_01M7N85TQ36STD6FZ8WRGADRYY','progress','{"kind":"provider_call","message":"[2/50] Calling provider","turn":2,"maxTurns":50}');
INSERT INTO "events" VALUES(2,18,1794935811339,'run_01M7N85TQ36STD6FZ8WRGADRYY','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(2,19,1794935811339,'run_01M7N85TQ36STD6FZ8WRGADRYY','model_request','{"turn":2,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3858}');
INSERT INTO "events" VALUES(2,20,1794935811340,'run_01M7N85TQ36STD6FZ8WRGADRYY','assistant_message','{"messageId":"asst_01M7N85TQ36STD6FZ8WRGADRYY.2","text":"","toolCalls":[{"callId":"call_1_0","name":"run_shell","arguments":"{\"command\":\"echo two >> work.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(2,21,1794935811340,'run_01M7N85TQ36STD6FZ8WRGADRYY','assistant_done','{"messageId":"asst_01M7N85TQ36STD6FZ8WRGADRYY.2"}');
INSERT INTO "events" VALUES(2,22,1794935811341,'run_01M7N85TQ36STD6FZ8WRGADRYY','usage','{"turn":2,"inputTokens":301,"outputTokens":10,"context":{"used":311,"limit":128000,"system":268,"summary":0,"memory":117,"tools":3178,"history":39,"buffer":1024},"budget":{"turns":2,"tokens":608,"toolCalls":1,"seconds":0.553,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(2,23,1794935811341,'run_01M7N85TQ36STD6FZ8WRGADRYY','phase','{"name":"streaming","durationMs":2.0}');
INSERT INTO "events" VALUES(2,24,1794935811341,'run_01M7N85TQ36STD6FZ8WRGADRYY','progress','{"kind":"tool_execution","message":"[2/50] Executing tools: run_shell","turn":2,"maxTurns":50,"toolNames":["run_shell"]}');
INSERT INTO "events" VALUES(2,25,1794935811347,'run_01M7N85TQ36STD6FZ8WRGADRYY','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo two >> work.txt"},"callId":"call_1_0","target":"local"}');
INSERT INTO "events" VALUES(2,26,1794935811347,'run_01M7N85TQ36STD6FZ8WRGADRYY','approval_received','{"approvalId":"appr_01M7N85V8KMZ2V66TAMABMA8G3","decision":"approve","by":"policy","callId":"call_1_0","digest":"c788765b26abc18bdc6e7d6d3a4997bdce4cf3847d400cf5b946ac59c93985fb"}');
INSERT INTO "events" VALUES(2,27,1794935811349,'run_01M7N85TQ36STD6FZ8WRGADRYY','tool_claimed','{"callId":"call_1_0","attempt":1,"tier":"privileged","target":"local","digest":"c788765b26abc18bdc6e7d6d3a4997bdce4cf3847d400cf5b946ac59c93985fb"}');
CREATE TABLE inbox (
  item INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, key TEXT NOT NULL, kind TEXT NOT NULL,
  body BLOB NOT NULL, taken INTEGER NOT NULL DEFAULT 0, UNIQUE (session, key)
) STRICT;
CREATE TABLE keys (
  session INTEGER NOT NULL, key TEXT NOT NULL, last_seq INTEGER NOT NULL, PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "keys" VALUES(1,'msg_01M7N85RYQTY89MYM12DKFSH0W',3);
INSERT INTO "keys" VALUES(2,'msg_01M7N85TQ3JFWV6G55G676NX33',3);
CREATE TABLE owners (owner TEXT PRIMARY KEY, seen INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "owners" VALUES('elsewhere:::1::0000000000000000',1);
CREATE TABLE sessions (
  key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, repo TEXT NOT NULL, root_path TEXT NOT NULL,
  mode TEXT NOT NULL, state TEXT NOT NULL, title TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  first_seq INTEGER NOT NULL DEFAULT 1, last_seq INTEGER NOT NULL DEFAULT 0, epoch INTEGER NOT NULL, owner TEXT
) STRICT;
INSERT INTO "sessions" VALUES(1,'sess_01M7N85RXFDXCHVR5NN5WH1SPJ','{"rootPath":"WORKSPACE"}','WORKSPACE','headless','completed',NULL,1794935808960,1794935809730,1,30,1,NULL);
INSERT INTO "sessions" VALUES(2,'sess_01M7N85TNPHPXNF6792AE2MPE2','{"rootPath":"WORKSPACE"}','WORKSPACE','headless','running',NULL,1794935810761,1794935811349,1,27,1,'elsewhere:::1::0000000000000000');
CREATE TABLE tokens (
  hash TEXT PRIMARY KEY, session INTEGER NOT NULL, role TEXT NOT NULL, expires_at INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO "tokens" VALUES('8163aefac7a887984600168ebb4d797a0f190c0ddde6697e3f4344d9a27e95d6',1,'driver',NULL);
INSERT INTO "tokens" VALUES('d7aab5f769f28ba8121850a972c0181e06d6a11f3a30d26366aca9ac66f61697',2,'driver',NULL);
CREATE INDEX approvals_of_session ON approvals (session);
CREATE INDEX inbox_waiting ON inbox (session, item) WHERE taken = 0;
CREATE INDEX tokens_of_session ON tokens (session);
CREATE INDEX blob_refs_of_session ON blob_refs (session);
PRAGMA user_version = 1;
COMMIT;
